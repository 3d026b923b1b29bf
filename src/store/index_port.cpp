#include "store/index_port.h"

#include "store/object_store.h"

namespace cairn::store {
namespace {

constexpr const char* damaged = "the index is damaged: it is made anew";

}  // namespace

IndexPort::IndexPort(ObjectStore& store, io::Machine& machine, Lane reads)
    : store_(store), machine_(machine), reads_(reads) {
  renew();
}

void IndexPort::renew() {
  auto index = store_.index();
  if (index == nullptr || held_->index == index) return;
  auto kv = index->engine->make_port(machine_, reads_);
  held_ = std::make_shared<Held>(std::move(index), std::move(kv));
}

const std::shared_ptr<IndexPort::Held>& IndexPort::now() {
  if (held_->index->number != store_.index_number()) renew();
  return held_;
}

// A table that the disk cannot read is as lost as one with wrong bytes. A write that the disk refuses is no
// damage.
template <class T>
Result<T> IndexPort::checked(const Held& held, Result<T> answer, bool read) {
  if (answer) return answer;
  const ErrorCode code = answer.error().code;
  if (code != ErrorCode::integrity && !(read && code == ErrorCode::io_failed)) return answer;
  store_.distrust_index(held.index->number);
  return fail(ErrorCode::degraded, damaged);
}

Error IndexPort::distrust(const char*) noexcept {
  store_.distrust_index(held_->index->number);
  return {ErrorCode::degraded, damaged};
}

Result<std::optional<std::string>> IndexPort::try_get(std::string_view key) {
  const Held& held = *now();
  auto answer = held.kv->try_get(key);
  if (answer) return answer;
  return checked(held, std::move(answer), true);
}

Task<Result<std::optional<std::string>>> IndexPort::get(Call call, std::string key) {
  const std::shared_ptr<Held> held = now();
  co_return checked(*held, co_await held->kv->get(call, std::move(key)), true);
}

Task<Result<std::vector<KvPair>>> IndexPort::scan(Call call, std::string from, std::string until,
                                                  std::size_t limit) {
  const std::shared_ptr<Held> held = now();
  co_return checked(*held, co_await held->kv->scan(call, std::move(from), std::move(until), limit), true);
}

Task<Result<>> IndexPort::make_ready(Call call) {
  const std::shared_ptr<Held> held = now();
  co_return checked(*held, co_await held->kv->make_ready(call), false);
}

Task<Result<>> IndexPort::write(Call call, KvBatch batch) {
  const std::shared_ptr<Held> held = now();
  co_return checked(*held, co_await held->kv->write(call, std::move(batch)), false);
}

Task<Result<>> IndexPort::flush(Call call) {
  const std::shared_ptr<Held> held = now();
  co_return checked(*held, co_await held->kv->flush(call), false);
}

Task<Result<KvVerified>> IndexPort::verify(Call call, std::string from) {
  const std::shared_ptr<Held> held = now();
  co_return checked(*held, co_await held->kv->verify(call, std::move(from)), true);
}

}  // namespace cairn::store
