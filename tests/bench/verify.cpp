// bench_verify COMMITS: how fast a chain of commits is checked on one core: decoded, hashed (BLAKE3 for the
// chain, SHA-256 for the leaf and the tree). A second, shorter chain comes with payloads, so that signatures
// are checked too. Prints one JSON object.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "format/chain_verifier.h"
#include "format/sample_registry.h"

using namespace cairn;

namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

// Commits after `first`, of one approval each that nobody checks: what is hashed is as long as in a real
// chain.
std::vector<std::string> make_chain(const format::Genesis& first, std::size_t count) {
  format::Commit commit = format::decode_commit(as_bytes(first.commit)).value();
  std::string encoded = first.commit;
  std::vector<std::string> chain{encoded};
  while (chain.size() < count) {
    commit.prev = format::commit_b3(as_bytes(encoded));
    ++commit.version;
    ++commit.committed_at.ms;
    commit.payload_b3 = commit.prev;  // any hash
    encoded = format::encode(commit);
    chain.push_back(encoded);
  }
  return chain;
}

[[noreturn]] void refuse(const format::ChainVerifier& verifier) {
  fmt::print(stderr, "bench_verify: version {}: {}\n", verifier.bad_version(), verifier.why());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc == 2 ? std::atol(argv[1]) : 0;
  if (count < 100) {
    fmt::print(stderr, "usage: bench_verify COMMITS (at least 100)\n");
    return 64;
  }
  format::SampleRegistry registry(1, {1});
  const auto chain = make_chain(registry.versions[0], static_cast<std::size_t>(count));
  double begun = cpu_seconds();
  format::ChainVerifier hashes(registry.roots());
  for (const std::string& commit : chain)
    if (!hashes.take(as_bytes(commit), std::nullopt)) refuse(hashes);
  const double hashed = cpu_seconds() - begun;

  const auto items = format::decode_descriptor_set(as_bytes(registry.versions[0].payload)).value().items;
  const long signed_count = count / 50;
  for (long i = 1; i < signed_count; ++i) registry.append(items, {1});
  begun = cpu_seconds();
  format::ChainVerifier all(registry.roots());
  for (const format::Genesis& version : registry.versions)
    if (!format::take(all, version)) refuse(all);
  const double checked = cpu_seconds() - begun;
  fmt::print(
      R"({{"commits": {}, "commit_bytes": {}, "entries_s": {:.0f}, "signed_commits": {}, "signed_entries_s": {:.0f}}})"
      "\n",
      count, chain.back().size(), static_cast<double>(count) / hashed, signed_count,
      static_cast<double>(signed_count) / checked);
  return 0;
}
