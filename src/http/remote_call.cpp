#include "http/remote_call.h"

#include <algorithm>

#include "http/h1/framing.h"
#include "http/websocket/handshake.h"

namespace cairn::http {
namespace {

// Passes the caller's source to the client, which wants to own one.
class Borrowed final : public io::BodySource, public PooledFrame {
 public:
  explicit Borrowed(io::BodySource& source) noexcept : source_(source) {}
  std::optional<io::Piece> try_next() override { return source_.try_next(); }
  Task<Result<io::Piece>> next(Call call) override { return source_.next(call); }

 private:
  io::BodySource& source_;
};

// Fields that a LocalCall does not have: the carrier has written them, or shows them in another way.
bool is_carriers(FieldName name) noexcept {
  return is_framing(name) || name == FieldName::content_type || name == FieldName::date;
}

}  // namespace

void RemoteCall::start(Method method, std::string_view target, const io::PeerAddress&) {
  drop();
  own_key_.clear();
  has_key_ = false;
  request_.clear();
  request_.method = method;
  request_.target = target;
}

void RemoteCall::add_field(std::string_view name, std::string_view value) {
  has_key_ = has_key_ || find_field_name(name) == FieldName::sec_websocket_key;
  if (find_field_name(name) == FieldName::host)
    request_.host = value;
  else
    request_.add_field(name, value);
}

void RemoteCall::set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept {
  request_.set_source(std::make_unique<Borrowed>(source), length);
}

Task<Result<>> RemoteCall::ask(Call call) {
  add_context(*this, call.context());
  if (!request_.upgrade.empty() && !has_key_) {
    own_key_ = websocket::make_key(client_.shard().random());
    request_.add_field(name_of(FieldName::sec_websocket_key), own_key_);
  }
  RetryPolicy policy = policy_;
  if (request_.kind == ClientRequest::Body::stream) policy.total = Instant::never() - Instant{};
  const Call bounded = call.within(policy.total);
  if (bounded.deadline() != Instant::never()) {
    const Duration left = bounded.deadline() - client_.shard().now();
    char digits[decimal_size_max];
    const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, left.to_millis()));
    add_field(name_of(FieldName::x_deadline_ms), {digits, format_decimal_to(ms, digits)});
  }
  auto answer = co_await attempt_with_retries(bounded, client_, request_, policy);
  if (!answer) co_return fail(answer.error());
  answer_.emplace(std::move(*answer));
  co_return answer_->status() == 101 ? begin_conversation() : Result<>{};
}

Result<> RemoteCall::begin_conversation() {
  const auto accepted = answer_->head().fields.find(FieldName::sec_websocket_accept);
  if (!own_key_.empty() && accepted != websocket::hash_key(own_key_)) {
    drop();
    return fail(ErrorCode::upstream, "not the answer to our Sec-WebSocket-Key", Side::upstream);
  }
  conversation_.emplace(*answer_);
  return {};
}

bool RemoteCall::is_shown(FieldName name) const noexcept {
  return !is_carriers(name) && (own_key_.empty() || name != FieldName::sec_websocket_accept);
}

Task<Result<io::Piece>> RemoteCall::Passed::next(Call call) {
  CO_TRY(Buffer slice, co_await answer_.next(call));
  co_return io::Piece(std::move(slice));
}

// Whatever ends what arrives ends what the peer is told: it sees the end, and ends its own side.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives the listener (CV-3)
Task<> RemoteCall::Passed::listen(Call call, RequestBody& arriving) {
  for (;;) {
    const auto slice = co_await arriving.next(call);
    if (!slice || slice->empty() || !co_await answer_.say(call, slice->bytes())) break;
  }
  answer_.end_saying();
}

std::string_view RemoteCall::content_type() const noexcept {
  return answer_ ? answer_->head().fields.get(FieldName::content_type) : std::string_view();
}

std::optional<std::uint64_t> RemoteCall::length() const noexcept {
  if (!answer_) return std::nullopt;
  const ResponseHead& head = answer_->head();
  if (head.body == BodyKind::length || head.announced) return head.content_length;
  const bool none = head.body == BodyKind::none && request_.method != Method::head;
  return none ? std::optional<std::uint64_t>(0) : std::nullopt;
}

std::optional<std::string_view> RemoteCall::find_field(std::string_view name) const noexcept {
  if (!answer_ || !is_shown(find_field_name(name))) return std::nullopt;
  return answer_->head().fields.find(name);
}

void RemoteCall::visit_fields(VisitField visit, void* to) const {
  if (!answer_) return;
  const Fields& fields = answer_->head().fields;
  const bool picky = names_fields(fields);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (is_shown(fields.known(i)) && !(picky && is_of_connection(fields, fields.name(i))))
      visit(to, fields.name(i), fields.value(i));
}

Task<Result<io::Piece>> RemoteCall::next(Call call) {
  if (done()) co_return io::Piece();
  CO_TRY(Buffer slice, co_await answer_->next(call));
  co_return io::Piece(std::move(slice));
}

std::optional<io::Piece> RemoteCall::take_whole() {
  std::optional<Buffer> whole = answer_ ? answer_->take_whole() : std::nullopt;
  return whole ? std::optional(io::Piece(std::move(*whole))) : std::nullopt;
}

}  // namespace cairn::http
