#include "http/remote_call.h"

#include <algorithm>

#include "http/h1/framing.h"

namespace cairn::http {
namespace {

// Passes the caller's source to the client, which wants to own one.
class Borrowed final : public io::BodySource {
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
  answer_.reset();
  request_ = ClientRequest();
  request_.endpoint = endpoint_;
  request_.method = method;
  request_.target = target;
}

void RemoteCall::add_field(std::string_view name, std::string_view value) {
  if (find_field_name(name) == FieldName::host)
    request_.host = value;
  else
    request_.add_field(name, value);
}

void RemoteCall::set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept {
  request_.set_source(std::make_unique<Borrowed>(source), length);
}

Task<Result<>> RemoteCall::ask(Call call) {
  add_context(*this, call);
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
  co_return Result<>{};
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
  if (!answer_ || is_carriers(find_field_name(name))) return std::nullopt;
  return answer_->head().fields.find(name);
}

void RemoteCall::visit_fields(VisitField visit, void* to) const {
  if (!answer_) return;
  const Fields& fields = answer_->head().fields;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!is_carriers(fields.known(i))) visit(to, fields.name(i), fields.value(i));
}

Task<Result<io::Piece>> RemoteCall::next(Call call) {
  if (done()) co_return io::Piece();
  CO_TRY(Buffer slice, co_await answer_->next(call));
  co_return io::Piece(std::move(slice));
}

}  // namespace cairn::http
