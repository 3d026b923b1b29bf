#include "serve/answer.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::serve {
namespace {

struct Sample {
  explicit Sample(Error error, std::optional<unsigned> retry_after = {}) {
    constexpr std::string_view corr = "01J00000000000000000000000";
    std::copy(corr.begin(), corr.end(), request.corr_text.begin());
    request.corr_size = corr.size();
    answer_error(request, error, retry_after);
  }
  const std::string& body() const { return request.response.text; }
  bool has_header() const {
    return request.response.fields.lines().find("Retry-After: ") != std::string_view::npos;
  }
  bool has_member() const { return body().find("\"retry_after\":") != std::string::npos; }
  http::RequestHead head;
  http::NoBody body_;
  http::Exchange exchange{head, body_};
  Request request{exchange};
};

TEST(Answer, an_error_is_exactly_this_json) {
  const Sample busy({ErrorCode::busy, "work queue is full"}, 3);
  EXPECT_EQ(
      busy.body(),
      R"({"error":{"code":"busy","message":"work queue is full","corr_id":"01J00000000000000000000000","retry_after":3}})");
  EXPECT_EQ(busy.request.response.status, 429);
  EXPECT_EQ(busy.request.response.content_type, "application/json");
  EXPECT_EQ(busy.request.response.fields.lines(), "Retry-After: 3\r\n");
  const Sample missing({ErrorCode::not_found, "say \"what\"\n"});
  EXPECT_EQ(
      missing.body(),
      R"({"error":{"code":"not_found","message":"say \"what\"\n","corr_id":"01J00000000000000000000000"}})");
  EXPECT_EQ(missing.request.response.fields.lines(), "");
}

TEST(Answer, the_header_is_there_exactly_when_the_member_is) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::invalid); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const Sample plain({code, ""});
    EXPECT_EQ(plain.has_header(), plain.has_member()) << name_of(code);
    const Sample timed({code, ""}, 2);
    EXPECT_TRUE(timed.has_header() && timed.has_member()) << name_of(code);
  }
}

TEST(Answer, a_wrong_version_of_websocket_is_told_the_right_one) {
  const Sample sample({ErrorCode::upgrade_required, "version"});
  EXPECT_EQ(sample.request.response.status, 426);
  EXPECT_EQ(sample.request.response.fields.lines(), "Sec-WebSocket-Version: 13\r\n");
}

TEST(Answer, waiting_is_advised_only_where_it_helps) {
  for (const ErrorCode code : {ErrorCode::busy, ErrorCode::quota, ErrorCode::draining, ErrorCode::degraded,
                               ErrorCode::breaker_open, ErrorCode::not_ready, ErrorCode::storage_full})
    EXPECT_TRUE(Sample({code, ""}).has_header()) << name_of(code);
  for (const ErrorCode code : {ErrorCode::malformed, ErrorCode::not_found, ErrorCode::internal,
                               ErrorCode::timeout, ErrorCode::timeout_read, ErrorCode::body_cap})
    EXPECT_FALSE(Sample({code, ""}).has_header()) << name_of(code);
}

TEST(Answer, every_code_has_a_status_a_client_can_act_on) {
  for (int i = 1; i <= static_cast<int>(ErrorCode::invalid); ++i) {
    const Sample answered({static_cast<ErrorCode>(i), ""});
    EXPECT_GE(answered.request.response.status, 400) << i;
    EXPECT_LT(answered.request.response.status, 600) << i;
  }
}

TEST(Answer, what_stays_inside_becomes_what_a_client_can_act_on) {
  const auto stopped = [](StopReason reason) {
    return public_code({ErrorCode::cancelled, "", Side::self, reason});
  };
  EXPECT_EQ(stopped(StopReason::deadline), ErrorCode::timeout);
  EXPECT_EQ(stopped(StopReason::draining), ErrorCode::draining);
  EXPECT_EQ(stopped(StopReason::aborted), ErrorCode::draining);
  for (const ErrorCode inside : {ErrorCode::closed, ErrorCode::io_failed, ErrorCode::connection_lost,
                                 ErrorCode::invalid, ErrorCode::lagged})
    EXPECT_EQ(public_code({inside, ""}), ErrorCode::internal) << name_of(inside);
  EXPECT_EQ(public_code({ErrorCode::connection_lost, "", Side::client}), ErrorCode::malformed);
  EXPECT_EQ(public_code({ErrorCode::integrity, ""}), ErrorCode::integrity);
}

TEST(Answer, details_are_the_last_member_of_the_error) {
  http::RequestHead head;
  http::NoBody body_;
  http::Exchange exchange{head, body_};
  Request request{exchange};
  answer_error(request, {ErrorCode::pruned, "gone"}, R"({"checkpoint":7})");
  EXPECT_EQ(request.response.status, 410);
  EXPECT_EQ(request.response.text,
            R"({"error":{"code":"pruned","message":"gone","corr_id":"","details":{"checkpoint":7}}})");
  request.response.clear();
  answer_error(request, {ErrorCode::degraded, "later"}, "{}");
  EXPECT_EQ(request.response.text,
            R"({"error":{"code":"degraded","message":"later","corr_id":"","retry_after":1,"details":{}}})");
  EXPECT_EQ(request.response.fields.lines(), "Retry-After: 1\r\n");
}

TEST(Answer, a_text_that_was_begun_is_replaced) {
  http::RequestHead head;
  http::NoBody body_;
  http::Exchange exchange{head, body_};
  Request request{exchange};
  request.response.text = "half an answer";
  request.response.answer_view("text/plain", "x");
  answer_error(request, {ErrorCode::pruned, "gone"});
  EXPECT_EQ(request.response.kind, http::Response::Body::text);
  EXPECT_EQ(request.response.text, R"({"error":{"code":"pruned","message":"gone","corr_id":""}})");
}

TEST(Answer, a_wait_that_ended_early_is_told_in_words_a_client_can_act_on) {
  http::RequestHead head;
  http::NoBody body_;
  http::Exchange exchange{head, body_};
  Request request{exchange};
  answer_error(request, {ErrorCode::timeout, "sleep", Side::self, StopReason::deadline});
  EXPECT_EQ(request.response.text,
            R"({"error":{"code":"timeout","message":"the deadline passed","corr_id":""}})");
  request.response.clear();
  answer_error(request, {ErrorCode::cancelled, "sleep", Side::self, StopReason::draining});
  EXPECT_NE(request.response.text.find(R"("message":"shutting down")"), std::string::npos);
  request.response.clear();
  answer_error(request, {ErrorCode::io_failed, "read /secret/path"});
  EXPECT_EQ(request.response.text,
            R"({"error":{"code":"internal","message":"internal error","corr_id":""}})");
}

}  // namespace
}  // namespace cairn::serve
