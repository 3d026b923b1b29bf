#include "serve/answer.h"

#include "codec/json_writer.h"

namespace cairn::serve {

ErrorCode public_code(const Error& error) noexcept {
  if (status_of(error.code) != 0) return error.code;
  // A body was cut off: half of a request is malformed.
  if (error.code == ErrorCode::connection_lost && error.side == Side::client) return ErrorCode::malformed;
  if (error.code != ErrorCode::cancelled) return ErrorCode::internal;
  return error.stop == StopReason::deadline ? ErrorCode::timeout : ErrorCode::draining;
}

namespace {

// The context of a wait that ended early names the wait, and the context of our own errors says what we were
// doing. Both are for the log. A client is told something that it can act on.
std::string_view message_of(const Error& error, ErrorCode code) noexcept {
  if (error.stop == StopReason::deadline) return "the deadline passed";
  if (code == error.code) return error.context;
  if (code == ErrorCode::draining) return "shutting down";
  if (code == ErrorCode::malformed) return "the request was cut off";
  return "internal error";
}

}  // namespace

void answer_error(Request& request, const Error& error, std::optional<unsigned> retry_after) {
  http::Response& response = request.response;
  const ErrorCode code = public_code(error);
  response.abandoned = error.stop == StopReason::client_gone;
  if (!retry_after && Error(code, "").retry() == Retry::later && status_of(code) != 408 &&
      status_of(code) != 504)
    retry_after = 1;
  response.status = status_of(code);
  if (response.status == 401) response.add_field("WWW-Authenticate", "Bearer");
  if (response.status == 426) {
    response.add_lines("Sec-WebSocket-Version: 13\r\n");
    // Fields of HTTP/1.1 alone.
    if (request.fields().has(http::FieldName::upgrade))
      response.add_lines("Upgrade: websocket\r\nConnection: Upgrade\r\n");
  }
  response.text.clear();
  codec::JsonWriter json(response.text);
  json.begin_object().key("error").begin_object();
  json.field("code", name_of(code))
      .field("message", message_of(error, code))
      .field("corr_id", request.corr());
  if (retry_after) {
    json.field("retry_after", *retry_after);
    response.add_number("Retry-After", *retry_after);
  }
  json.end_object().end_object().finish();
  response.answer_text("application/json");
}

void answer_error(Request& request, const Error& error, std::string_view details) {
  CHECK(details.starts_with('{') && details.ends_with('}'));
  answer_error(request, error);
  std::string& text = request.response.text;
  text.resize(text.size() - 2);  // the two closing braces
  text.append(R"(,"details":)").append(details).append("}}");
}

}  // namespace cairn::serve
