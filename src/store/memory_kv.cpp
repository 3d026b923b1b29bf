#include "store/memory_kv.h"
#include "store/locks.h"

namespace cairn::store {
namespace {

using SharedMap = std::shared_ptr<Guarded<KvMap, index_map_lock.rank>>;

class MemoryPort final : public Kv {
 public:
  explicit MemoryPort(SharedMap map) noexcept : map_(std::move(map)) {}

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    return map_->with([&](const KvMap& map) { return map.find(key); });
  }
  Task<Result<std::optional<std::string>>> get(Call, std::string key) override { co_return try_get(key); }
  Task<Result<std::vector<KvPair>>> scan(Call, std::string from, std::string until,
                                         std::size_t limit) override {
    co_return map_->with([&](const KvMap& map) { return map.scan(from, until, limit); });
  }
  Task<Result<>> make_ready(Call) override { co_return Result<>{}; }
  Task<Result<>> write(Call, KvBatch batch) override {
    map_->with([&](KvMap& map) { map.apply(batch); });
    co_return Result<>{};
  }
  Task<Result<>> flush(Call) override { co_return Result<>{}; }
  Task<Result<KvVerified>> verify(Call, std::string) override { co_return KvVerified{}; }

 private:
  SharedMap map_;
};

class MemoryEngine final : public KvEngine {
 public:
  std::unique_ptr<Kv> make_port(io::Machine&, Lane) override { return std::make_unique<MemoryPort>(map_); }
  std::uint64_t memory() const noexcept override {
    return map_->with([](const KvMap& map) { return map.memory(); });
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
  Task<Result<>> close(Call, io::Machine&) override { co_return Result<>{}; }

 private:
  SharedMap map_ = std::make_shared<Guarded<KvMap, index_map_lock.rank>>();
};

}  // namespace

void KvMap::apply(const KvBatch& batch) {
  for (const KvBatch::Change& change : batch.changes()) {
    const auto found = pairs_.find(change.key);
    if (found != pairs_.end()) {
      bytes_ -= found->second.size();
      if (change.value) {
        bytes_ += change.value->size();
        found->second = *change.value;
      } else {
        bytes_ -= change.key.size();
        pairs_.erase(found);
      }
    } else if (change.value) {
      bytes_ += change.key.size() + change.value->size();
      pairs_.emplace(change.key, *change.value);
    }
  }
}

std::optional<std::string> KvMap::find(std::string_view key) const {
  const auto found = pairs_.find(key);
  if (found == pairs_.end()) return std::nullopt;
  return found->second;
}

std::vector<KvPair> KvMap::scan(std::string_view from, std::string_view until, std::size_t limit) const {
  std::vector<KvPair> out;
  for (auto at = pairs_.lower_bound(from); at != pairs_.end() && at->first < until && out.size() < limit;
       ++at)
    out.push_back({at->first, at->second});
  return out;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
Task<Result<std::shared_ptr<KvEngine>>> MemoryKvMaker::open(Call, io::Machine&, std::string) {
  co_return std::make_shared<MemoryEngine>();
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
Task<Result<>> MemoryKvMaker::destroy(Call, io::Machine&, std::string) { co_return Result<>{}; }

}  // namespace cairn::store
