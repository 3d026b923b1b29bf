// SampleRegistry: a chain of signed versions for tests, made of keys that are numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "codec/json_reader.h"
#include "crypto/blake3.h"
#include "format/chain_verifier.h"

namespace cairn::format {

inline constexpr WallTime sample_time{1'767'225'600'000};  // 2026-01-01T00:00:00Z

inline crypto::Ed25519Key sample_key(unsigned number) {
  std::array<std::byte, 32> seed{};
  seed[0] = static_cast<std::byte>(number);
  seed[1] = static_cast<std::byte>(number >> 8);
  return crypto::Ed25519Key(seed);
}
inline std::string sample_signer_id(unsigned number) { return "signer-" + std::to_string(number); }

inline Signer sample_signer(unsigned number) {
  return {sample_signer_id(number), std::nullopt, std::string(approving_algo),
          std::string(as_text(sample_key(number).public_key()))};
}

inline std::string sample_signer_set(unsigned m, const std::vector<unsigned>& numbers) {
  std::vector<Signer> signers;
  for (const unsigned number : numbers) signers.push_back(sample_signer(number));
  return encode_signer_set(m, signers).value();
}

// CHECKs that the text is an item.
inline std::string sample_item(std::string_view json) {
  codec::JsonReader reader;
  const auto root = reader.parse(json);
  CHECK(root.has_value());
  auto item = item_from_json(*root);
  CHECK(item.has_value());
  return *item;
}
inline std::string sample_revocation(unsigned number) {
  return sample_item(R"({"type":"revocation","key_id":")" + sample_signer_id(number) +
                     R"(","reason":"lost"})");
}

// Versions from genesis on, each as its bytes. Appended versions are not checked: tests append wrong ones
// too.
struct SampleRegistry {
  std::vector<Genesis> versions;

  SampleRegistry(unsigned m, const std::vector<unsigned>& numbers, std::vector<std::string> more_items = {}) {
    std::vector<crypto::Ed25519Key> keys;
    for (const unsigned number : numbers) keys.push_back(sample_key(number));
    std::vector<std::pair<std::string, const crypto::Ed25519Key*>> signers;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      signers.emplace_back(sample_signer_id(numbers[i]), &keys[i]);
    versions.push_back(make_genesis(m, std::move(signers), std::move(more_items), sample_time).value());
  }

  Address head() const { return commit_b3(as_bytes(versions.back().commit)); }

  TrustRoots roots() const {
    return {crypto::hash_object(as_bytes(versions[0].payload)), commit_b3(as_bytes(versions[0].commit)),
            "log+00000000+AA=="};
  }

  DescriptorSet next_set(std::vector<std::string> items) const {
    DescriptorSet set;
    set.version = versions.size();
    set.prev = head();
    set.items = std::move(items);
    set.created_at = WallTime{sample_time.ms + static_cast<std::int64_t>(versions.size())};
    return set;
  }
  static Commit commit_of(const DescriptorSet& set, const std::vector<unsigned>& approvers) {
    Commit commit{.version = set.version,
                  .payload_b3 = crypto::hash_object(as_bytes(encode(set))),
                  .approvals = {},
                  .prev = set.prev,
                  .committed_at = set.created_at};
    for (const unsigned number : approvers)
      commit.approvals.push_back(
          sign_approval(sample_key(number), sample_signer_id(number), commit.payload_b3, set.created_at));
    return commit;
  }
  void append(std::vector<std::string> items, const std::vector<unsigned>& approvers) {
    const DescriptorSet set = next_set(std::move(items));
    versions.push_back({encode(set), encode(commit_of(set, approvers))});
  }
};

inline Result<> take(ChainVerifier& verifier, const Genesis& version) {
  return verifier.take(as_bytes(version.commit), as_bytes(version.payload));
}

}  // namespace cairn::format
