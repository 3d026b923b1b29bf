#include "answer.h"

#include <fmt/format.h>

#include "base/ulid.h"

namespace cairn::simulator {
namespace {

// The text between `before` and the next quote, from `at` on; at moves behind it.
std::optional<std::string_view> take(std::string_view text, std::size_t& at, std::string_view before) {
  if (!text.substr(at).starts_with(before)) return std::nullopt;
  const std::size_t begin = at + before.size();
  const std::size_t end = text.find('"', begin);
  if (end == std::string_view::npos) return std::nullopt;
  at = end + 1;
  return text.substr(begin, end - begin);
}

// {"error":{"code":"…","message":"…","corr_id":"…"[,"retry_after":N][,"details":{…}]}} exactly.
bool read_error(Answer& answer) {
  const std::string_view text = answer.body;
  std::size_t at = 0;
  const auto code = take(text, at, R"({"error":{"code":")");
  if (!code) return false;
  const auto message = take(text, at, R"(,"message":")");
  if (!message) return false;
  const auto corr = take(text, at, R"(,"corr_id":")");
  if (!corr) return false;
  // Who is behind may not have read the head either.
  const bool unread_behind =
      answer.passed_on && (answer.status == 429 || answer.status == 408) && parse_ulid(*corr).has_value();
  if (*corr != answer.corr && !unread_behind) return false;
  std::string_view rest = text.substr(at);
  std::string end = "}}";
  if (!answer.retry_after.empty()) end = R"(,"retry_after":)" + answer.retry_after + "}}";
  if (const std::size_t details = rest.find(R"(,"details":{)"); details != std::string_view::npos) {
    if (!rest.ends_with("}}}")) return false;
    end.insert(end.size() - 2, rest.substr(details, rest.size() - details - 2));
  }
  if (rest != end && rest != end + "\n") return false;
  answer.code = find_error_code(*code);
  answer.message = *message;
  return answer.code.has_value() && status_of(*answer.code) == answer.status;
}

}  // namespace

Answer read_head(const http::ResponseHead& head) {
  using http::FieldName;
  Answer answer;
  answer.status = head.status;
  answer.last = !head.keep_alive;
  answer.dated = head.fields.has(FieldName::date);
  answer.nosniff = head.fields.find("X-Content-Type-Options").value_or("") == "nosniff";
  answer.corr = head.fields.get(FieldName::x_corr_id);
  answer.etag = head.fields.get(FieldName::etag);
  answer.content_range = head.fields.get(FieldName::content_range);
  answer.allow = head.fields.get(FieldName::allow);
  answer.upload_missing = head.fields.find("Upload-Missing").value_or("");
  answer.retry_after = head.fields.get(FieldName::retry_after);
  return answer;
}

std::string find_fault(Answer& answer, http::Method method, std::string_view corr, bool bare) {
  if (!answer.nosniff) return "no nosniff";
  if (!answer.dated) return "no Date";
  const bool fresh = parse_ulid(answer.corr).has_value();
  answer.unread =
      fresh && answer.last && answer.corr != corr && (answer.status == 429 || answer.status == 408);
  if (!corr.empty() && answer.corr != corr && !answer.unread)
    return fmt::format("X-Corr-ID is {}, {} was sent", answer.corr, corr);
  if (corr.empty() && !fresh) return fmt::format("X-Corr-ID {} is not a ULID", answer.corr);
  if (answer.status < 400 || bare) return {};
  if (method == http::Method::head) return answer.body.empty() ? "" : "a HEAD answer with a body";
  answer.well_formed_error = read_error(answer);
  if (!answer.well_formed_error) return fmt::format("the error's body is {}", answer.body.substr(0, 200));
  return {};
}

}  // namespace cairn::simulator
