// Bare tiles: what is right passes, and whatever is changed is found and named.
#include <gtest/gtest.h>

#include "client/registry_audit.h"
#include "client/sample_log.h"

namespace cairn::client {
namespace {

using Files = std::map<std::string, std::string>;

AuditReport audit(const SampleLog& sample, const Files& files,
                  std::optional<crypto::Checkpoint> since = std::nullopt) {
  std::vector<std::string> present;
  for (const auto& [path, bytes] : files)
    if (path != "checkpoint") present.push_back(path);
  const TileReader read = [&files](const std::string& path) -> Result<std::string> {
    const auto at = files.find(path);
    if (at == files.end()) return fail(ErrorCode::not_found, "cannot be read");
    return at->second;
  };
  return audit_tiles(sample.roots, read, present, since);
}

crypto::Checkpoint opened(const SampleLog& sample, std::uint64_t size) {
  auto checkpoint = open_checkpoint(sample.checkpoint(size), sample.roots);
  CHECK(checkpoint.has_value());
  return std::move(*checkpoint);
}

// The version that byte `at` of a tile belongs to.
std::uint64_t version_at(const SampleLog& sample, const std::string& path, std::size_t at) {
  const auto id = crypto::parse_tile_path(path);
  CHECK(id.has_value());
  const std::uint64_t first = id->index * crypto::tile_width_max;
  if (!id->entries) return (first + at / 32) << (crypto::tile_height * id->level);
  for (std::uint64_t v = first;; ++v) {
    const std::size_t size = 2 + sample.versions[v].commit.size();
    if (at < size) return v;
    at -= size;
  }
}

TEST(TileAudit, right_tiles_of_every_size_pass) {
  const SampleLog sample(520);
  for (const std::uint64_t size : {1u, 2u, 5u, 255u, 256u, 257u, 300u, 512u, 513u, 520u}) {
    const AuditReport report = audit(sample, sample.files(size));
    EXPECT_EQ(report.why, "") << size;
    EXPECT_EQ(report.versions, size);
    EXPECT_EQ(report.first, 0u);
    EXPECT_EQ(report.checkpoint_size, size);
    EXPECT_FALSE(report.approvals_checked);
  }
}

TEST(TileAudit, a_flipped_bit_in_any_byte_is_found_and_its_version_named) {
  const SampleLog sample(3);
  const Files files = sample.files(3);
  std::size_t flips = 0;
  for (const auto& [path, bytes] : files)
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      Files damaged = files;
      damaged[path][at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
      const AuditReport report = audit(sample, damaged);
      ASSERT_FALSE(report.ok()) << path << " " << at;
      if (path != "checkpoint") {
        ASSERT_EQ(report.bad_version, version_at(sample, path, at)) << path << " " << at << " " << report.why;
      }
      ++flips;
    }
  EXPECT_GT(flips, 500u);
}

TEST(TileAudit, a_flipped_bit_is_found_in_logs_of_several_tiles_and_levels) {
  const SampleLog sample(300);
  Files files = sample.files(300);
  for (const auto& [path, bytes] : sample.files(290)) files.emplace(path, bytes);  // older partial ones
  for (const auto& [path, bytes] : files)
    for (std::size_t at = path.size() % 7; at < bytes.size(); at += 997) {
      Files damaged = files;
      damaged[path][at] = static_cast<char>(bytes[at] ^ 0x10);
      const AuditReport report = audit(sample, damaged);
      ASSERT_FALSE(report.ok()) << path << " " << at;
      if (path != "checkpoint") {
        ASSERT_EQ(report.bad_version, version_at(sample, path, at)) << path << " " << at << " " << report.why;
      }
    }
}

TEST(TileAudit, a_cut_or_missing_file_is_found) {
  const SampleLog sample(300);
  const Files files = sample.files(300);
  for (const auto& [path, bytes] : files) {
    Files damaged = files;
    damaged[path].pop_back();
    EXPECT_FALSE(audit(sample, damaged).ok()) << path;
    damaged = files;
    damaged[path] += 'x';
    EXPECT_FALSE(audit(sample, damaged).ok()) << path;
    damaged = files;
    damaged.erase(path);
    // Entries from the beginning may have been pruned.
    if (path != "tile/entries/000") {
      EXPECT_FALSE(audit(sample, damaged).ok()) << path;
    }
  }
}

TEST(TileAudit, what_was_pruned_is_believed_by_its_hashes_and_said) {
  const SampleLog sample(300);
  Files files = sample.files(300);
  files.erase("tile/entries/000");
  const AuditReport report = audit(sample, files);
  EXPECT_EQ(report.why, "");
  EXPECT_EQ(report.first, 256u);
  EXPECT_EQ(report.versions, 44u);
  files.erase("tile/entries/001.p/44");
  const AuditReport hashes_only = audit(sample, files);
  EXPECT_FALSE(hashes_only.ok());
  EXPECT_TRUE(hashes_only.unproved);
  files["tile/0/000"][0] ^= 1;
  EXPECT_FALSE(audit(sample, files).unproved);
}

TEST(TileAudit, a_full_tile_may_stand_in_for_the_partial_one_of_an_older_checkpoint) {
  const SampleLog sample(256);
  Files files = sample.files(256);
  files["checkpoint"] = sample.checkpoint(200);
  const AuditReport report = audit(sample, files);
  EXPECT_EQ(report.why, "");
  EXPECT_EQ(report.versions, 200u);
}

TEST(TileAudit, a_commit_that_does_not_follow_is_named_although_its_hashes_are_right) {
  SampleLog sample(5);
  format::DescriptorSet set = sample.next_set();
  set.prev = Address{};
  sample.add(sample.sign(set, sample.signer()));
  const AuditReport report = audit(sample, sample.files(6));
  EXPECT_EQ(report.bad_version, 5u);
  EXPECT_TRUE(report.why.starts_with("version 5: ")) << report.why;
}

TEST(TileAudit, another_registry_s_checkpoint_is_refused) {
  const SampleLog sample(4);
  format::TrustRoots other = sample.roots;
  other.log_key = crypto::format_verifier_key({sample.origin(), format::sample_key(9).public_key()});
  EXPECT_FALSE(open_checkpoint(sample.checkpoint(), other));
  other = sample.roots;
  other.genesis_payload_b3.bytes[0] ^= std::byte{1};
  EXPECT_FALSE(open_checkpoint(sample.checkpoint(), other));
  EXPECT_TRUE(open_checkpoint(sample.checkpoint(), sample.roots));
}

TEST(TileAudit, a_log_that_shrank_or_was_rewritten_is_found_by_an_earlier_checkpoint) {
  const SampleLog sample(9);
  EXPECT_TRUE(audit(sample, sample.files(9), opened(sample, 4)).ok());
  EXPECT_TRUE(audit(sample, sample.files(9), opened(sample, 9)).ok());
  EXPECT_FALSE(audit(sample, sample.files(5), opened(sample, 9)).ok());
  crypto::Checkpoint rewritten = opened(sample, 4);
  rewritten.root[0] ^= std::byte{1};
  EXPECT_FALSE(audit(sample, sample.files(9), rewritten).ok());
}

}  // namespace
}  // namespace cairn::client
