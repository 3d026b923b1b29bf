#include "services/gateway/passing.h"

#include <algorithm>

#include "crypto/macaroon.h"
#include "http/conversation.h"
#include "http/forwarded.h"
#include "http/h1/framing.h"

namespace cairn::gateway {
namespace {

using http::FieldName;
using http::Fields;

constexpr std::uint64_t set_of(std::initializer_list<FieldName> names) noexcept {
  std::uint64_t bits = 0;
  for (const FieldName name : names) bits |= std::uint64_t{1} << static_cast<unsigned>(name);
  return bits;
}

// The gateway has acted on these: it sends its own, or has checked them.
constexpr std::uint64_t ended_here =
    set_of({FieldName::connection, FieldName::content_length, FieldName::expect, FieldName::keep_alive,
            FieldName::te, FieldName::trailer, FieldName::transfer_encoding, FieldName::upgrade,
            FieldName::host, FieldName::origin, FieldName::forwarded, FieldName::x_forwarded_for,
            FieldName::x_corr_id, FieldName::traceparent, FieldName::deadline, FieldName::request_timeout,
            FieldName::x_deadline_ms, FieldName::via});

constexpr std::uint64_t of_parts =
    set_of({FieldName::range, FieldName::if_range, FieldName::accept_encoding});
constexpr std::uint64_t of_conditions =
    set_of({FieldName::if_match, FieldName::if_none_match, FieldName::if_modified_since,
            FieldName::if_unmodified_since});

bool starts_with(std::string_view name, std::string_view lowercase) noexcept {
  return name.size() >= lowercase.size() &&
         http::equals_ignoring_case(name.substr(0, lowercase.size()), lowercase);
}

// Names that field_names.def does not list.
bool is_forgeable(std::string_view name) noexcept {
  return starts_with(name, "x-forwarded-") || starts_with(name, "proxy-") ||
         http::equals_ignoring_case(name, "x-real-ip");
}

// The rest of an answer, as its call gives it. It keeps the call, and with it the views of the answer's head.
class AnswerSource final : public io::BodySource, public PooledFrame {
 public:
  explicit AnswerSource(serve::Peer::Handle call) noexcept : call_(std::move(call)) {}
  std::optional<io::Piece> try_next() override { return call_->try_next(); }
  Task<Result<io::Piece>> next(Call call) override { return call_->next(call); }

 private:
  serve::Peer::Handle call_;
};

// An answer that is in memory as a whole: its piece, and the call that may have its text or its file.
struct Kept final : PooledFrame {
  Kept(serve::Peer::Handle of, io::Piece whole) noexcept : call(std::move(of)), piece(std::move(whole)) {}
  static void release(void* self) noexcept { delete static_cast<Kept*>(self); }

  serve::Peer::Handle call;
  io::Piece piece;
};

void answer_with_whole(http::Response& response, serve::Peer::Handle call, io::Piece piece) {
  const std::string_view type = response.content_type;
  auto* const kept = new Kept(std::move(call), std::move(piece));
  const io::Piece& whole = kept->piece;
  io::Hold hold(kept, Kept::release);
  if (whole.is_file())
    response.answer_file(type, *whole.file, whole.offset, whole.count, std::move(hold));
  else
    response.answer_held(type, as_text(whole.bytes), std::move(hold));
}

// What the service behind says and hears, as its call carries it.
class PassedOn final : public http::Conversation {
 public:
  explicit PassedOn(serve::Peer::Handle call) noexcept : call_(std::move(call)) {}
  Task<Result<io::Piece>> next(Call call) override { return call_->conversation()->next(call); }
  Task<> listen(Call call, http::RequestBody& arriving) override {
    return call_->conversation()->listen(call, arriving);
  }
  void drain() noexcept override { call_->conversation()->drain(); }

 private:
  serve::Peer::Handle call_;
};

void tell_who_asks(const serve::Request& request, http::PeerCall& call) {
  http::ForwardedText text;
  const std::string_view host = request.host();
  call.add_field("Forwarded", http::format_forwarded(request.peer(), host, request.encrypted(), text));
  if (!request.peer().local) call.add_field("X-Forwarded-For", http::format_client(request.peer(), text));
  if (!host.empty()) call.add_field("X-Forwarded-Host", host);
  call.add_field("X-Forwarded-Proto", request.encrypted() ? "https" : "http");
}

}  // namespace

Error told_of(const Error& error) noexcept {
  // No connection was had: it is a certificate that is wrong, not an object.
  if (error.code == ErrorCode::integrity && error.undone)
    return {ErrorCode::upstream, "the certificate of the service behind the gateway is not accepted"};
  switch (error.code) {
    case ErrorCode::connection_lost:
      return {ErrorCode::upstream, "the service behind the gateway gave no answer"};
    case ErrorCode::invalid:
      return {ErrorCode::headers_too_large, "the head is too large to be passed on", Side::client};
    case ErrorCode::closed:
      return {ErrorCode::draining, "shutting down"};
    default:
      return error;
  }
}

bool has_token(std::string_view query) {
  constexpr std::string_view names[] = {"access_token", "token", "cap", "capability"};
  constexpr std::size_t shortest = 64;  // of a capability as text
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    for (const std::string_view name : names)
      if (http::equals_ignoring_case(pair.substr(0, equals), name)) return true;
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    if (value.size() >= shortest && crypto::parse_token(value)) return true;
  }
  return false;
}

void pass_fields(const serve::Request& request, http::PeerCall& call, bool outside, Choosing choosing) {
  std::uint64_t left_out = ended_here;
  if (choosing != Choosing::as_asked) left_out |= of_parts;
  if (choosing == Choosing::by_range) left_out |= of_conditions;
  const Fields& fields = request.fields();
  const bool picky = http::names_fields(fields);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const FieldName known = fields.known(i);
    if (known == FieldName::other ? is_forgeable(fields.name(i))
                                  : (left_out >> static_cast<unsigned>(known) & 1) != 0)
      continue;
    if (picky && http::is_of_connection(fields, fields.name(i))) continue;
    call.add_field(fields.name(i), fields.value(i));
  }
  if (outside) return tell_who_asks(request, call);
  call.set_encrypted(request.encrypted());
  if (const std::string_view host = request.host(); !host.empty()) call.add_field("Host", host);
}

bool pass_head(const http::PeerCall& call, http::Response& response, std::string_view content_range) {
  response.status = call.status();
  if (!content_range.empty()) response.add_field(name_of(FieldName::content_range), content_range);
  call.each_field([&](std::string_view name, std::string_view value) {
    if (!content_range.empty() && http::equals_ignoring_case(name, "content-range")) return;
    // The gateway tells the same id, and its carrier the same rule.
    if (!http::equals_ignoring_case(name, "x-corr-id") && !starts_with(name, "proxy-") &&
        !http::equals_ignoring_case(name, "x-content-type-options"))
      response.add_field(name, value);
  });
  response.content_type = call.content_type();
  return response.is_sound();
}

void answer_with(http::Response& response, serve::Peer::Handle call) {
  if (call->conversation() != nullptr) return response.switch_to(std::make_unique<PassedOn>(std::move(call)));
  if (auto whole = call->take_whole()) return answer_with_whole(response, std::move(call), std::move(*whole));
  const std::optional<std::uint64_t> length = call->length();
  const std::string_view type = response.content_type;
  auto source = std::make_unique<AnswerSource>(std::move(call));
  if (length)
    response.answer_sized(type, std::move(source), *length);
  else
    response.answer_stream(type, std::move(source));
}

}  // namespace cairn::gateway
