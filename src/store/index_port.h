// IndexPort: one shard's way to the index of a store. When a new index takes the place of a damaged one, the
// port goes over to it with its next question.
//
//   [IP-1] A question that a damaged index cannot answer is `degraded`: never "not there", and never
//         `integrity`, which is said of an object's bytes. The failed question tells the store of the damage.
//   [IP-2] A question is answered by one index. A question that was asked before the change is answered by
//         the old index, which is closed after the last such question has ended.
#pragma once

#include <memory>

#include "store/kv.h"

namespace cairn::store {

class ObjectStore;

// An open index. Every question to it holds it.
struct OpenIndex {
  static constexpr std::uint64_t none = UINT64_MAX;  // of no store
  std::shared_ptr<KvEngine> engine;
  std::uint64_t number = none;  // of its directory; the next one made has a higher
};

class IndexPort final : public Kv {
 public:
  // The store outlives the port, and is open when the port is asked. `reads`: the lane for reads from the
  // disk.
  IndexPort(ObjectStore& store, io::Machine& machine, Lane reads);

  Result<std::optional<std::string>> try_get(std::string_view key) override;
  Task<Result<std::optional<std::string>>> get(Call call, std::string key) override;
  Task<Result<std::vector<KvPair>>> scan(Call call, std::string from, std::string until,
                                         std::size_t limit) override;
  Task<Result<>> make_ready(Call call) override;
  Task<Result<>> write(Call call, KvBatch batch) override;
  Task<Result<>> flush(Call call) override;
  Task<Result<KvVerified>> verify(Call call, std::string from) override;
  Error distrust(const char* why) noexcept override;

  // Lets go of an index that is no longer the store's.
  void renew();

 private:
  // Kept by every question that waits.
  struct Held {
    std::shared_ptr<OpenIndex> index = std::make_shared<OpenIndex>();
    std::unique_ptr<Kv> kv;
  };
  const std::shared_ptr<Held>& now();
  template <class T>
  Result<T> checked(const Held& held, Result<T> answer, bool read);

  ObjectStore& store_;
  io::Machine& machine_;
  Lane reads_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
};

}  // namespace cairn::store
