// MemoryKv: the map in memory alone. It writes nothing: for nodes that keep no state, and as the memory of
// the engine that the simulator uses (LogKv).
//   KV-2 holds in its weakest form: after a crash, and after close, the map is empty. flush() has nothing to
//   do.
#pragma once

#include <map>

#include "runtime/guarded.h"
#include "store/kv.h"

namespace cairn::store {

// An ordered map and how much there is in it.
class KvMap {
 public:
  void apply(const KvBatch& batch);
  std::optional<std::string> find(std::string_view key) const;
  // Keys in [from, until), in order, at most `limit`.
  std::vector<KvPair> scan(std::string_view from, std::string_view until, std::size_t limit) const;

  std::size_t keys() const noexcept { return pairs_.size(); }
  std::uint64_t bytes() const noexcept { return bytes_; }  // of keys and values
  std::uint64_t memory() const noexcept { return bytes_ + pairs_.size() * per_pair; }
  const std::map<std::string, std::string, std::less<>>& pairs() const noexcept { return pairs_; }

 private:
  static constexpr std::uint64_t per_pair = 112;  // a tree node, and the room strings keep in reserve
  std::map<std::string, std::string, std::less<>> pairs_;
  std::uint64_t bytes_ = 0;
};

class MemoryKvMaker final : public KvMaker {
 public:
  // A new, empty map; the directory is not looked at.
  Task<Result<std::shared_ptr<KvEngine>>> open(Call call, io::Machine& machine,
                                               std::string directory) override;
  Task<Result<>> destroy(Call call, io::Machine& machine, std::string directory) override;
};

}  // namespace cairn::store
