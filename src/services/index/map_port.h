// MapPort: one shard's way to a map. A question that damaged files cannot answer is `degraded`, never "not
// there", and is remembered: the next start makes the map anew.
#pragma once

#include <atomic>
#include <memory>

#include "store/kv.h"

namespace cairn::index {

class MapPort final : public store::Kv {
 public:
  // `damaged` outlives it, and may be set by any shard.
  MapPort(std::unique_ptr<store::Kv> kv, std::atomic<bool>& damaged) noexcept
      : kv_(std::move(kv)), damaged_(damaged) {}

  Result<std::optional<std::string>> try_get(std::string_view key) override;
  Task<Result<std::optional<std::string>>> get(Call call, std::string key) override;
  Task<Result<std::vector<store::KvPair>>> scan(Call call, std::string from, std::string until,
                                                std::size_t limit) override;
  Task<Result<>> make_ready(Call call) override;
  Task<Result<>> write(Call call, store::KvBatch batch) override;
  Task<Result<>> flush(Call call) override;
  Task<Result<store::KvVerified>> verify(Call call, std::string from) override;
  Error distrust(const char* why) noexcept override;

 private:
  template <class T>
  Result<T> checked(Result<T> answer, bool read);

  std::unique_ptr<store::Kv> kv_;
  std::atomic<bool>& damaged_;
};

}  // namespace cairn::index
