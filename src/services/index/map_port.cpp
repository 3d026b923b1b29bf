#include "services/index/map_port.h"

namespace cairn::index {

Error MapPort::distrust(const char*) noexcept {
  damaged_ = true;
  return {ErrorCode::degraded, "the index is damaged: the next start makes it anew"};
}

// A file that the disk cannot read is as lost as one with wrong bytes. A write that the disk refuses is no
// damage.
template <class T>
Result<T> MapPort::checked(Result<T> answer, bool read) {
  if (answer) return answer;
  const ErrorCode code = answer.error().code;
  if (code != ErrorCode::integrity && !(read && code == ErrorCode::io_failed)) return answer;
  return fail(distrust(answer.error().context));
}

Result<std::optional<std::string>> MapPort::try_get(std::string_view key) {
  auto answer = kv_->try_get(key);
  if (answer) return answer;
  return checked(std::move(answer), true);
}

Task<Result<std::optional<std::string>>> MapPort::get(Call call, std::string key) {
  co_return checked(co_await kv_->get(call, std::move(key)), true);
}

Task<Result<std::vector<store::KvPair>>> MapPort::scan(Call call, std::string from, std::string until,
                                                       std::size_t limit) {
  co_return checked(co_await kv_->scan(call, std::move(from), std::move(until), limit), true);
}

Task<Result<>> MapPort::make_ready(Call call) { co_return checked(co_await kv_->make_ready(call), false); }

Task<Result<>> MapPort::write(Call call, store::KvBatch batch) {
  co_return checked(co_await kv_->write(call, std::move(batch)), false);
}

Task<Result<>> MapPort::flush(Call call) { co_return checked(co_await kv_->flush(call), false); }

Task<Result<store::KvVerified>> MapPort::verify(Call call, std::string from) {
  co_return checked(co_await kv_->verify(call, std::move(from)), true);
}

}  // namespace cairn::index
