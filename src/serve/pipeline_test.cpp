#include "serve/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <zlib.h>

#include "base/ulid.h"
#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;
using testing::Not;

// The error's code, if the body is one of ours.
std::string code_of(const Answer& answer) {
  const std::string start = R"({"error":{"code":")";
  if (!answer.body.starts_with(start)) return "not an error: " + answer.body;
  return answer.body.substr(start.size(), answer.body.find('"', start.size()) - start.size());
}

void expect_error(const Answer& answer, int status, std::string_view code,
                  std::optional<std::string> retry_after) {
  EXPECT_EQ(answer.status, status);
  EXPECT_EQ(code_of(answer), code);
  EXPECT_EQ(answer.field("Retry-After"), retry_after);
  EXPECT_EQ(answer.field("Content-Type"), "application/json");
  EXPECT_EQ(answer.body.find("retry_after") != std::string::npos, retry_after.has_value());
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(compressBound(text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Pipeline, a_route_at_once_is_answered_without_the_queue) {
  SimulatedNode sample;
  EXPECT_EQ(sample.connect().ask(get("/now/a%20b")).body, "a b");
  EXPECT_EQ(sample.service.state.started, 0);
}

TEST(Pipeline, a_route_at_once_may_hand_on_to_a_worker) {
  SimulatedNode sample;
  EXPECT_EQ(sample.connect().ask(get("/later")).body, "done");
  EXPECT_EQ(sample.service.state.started, 1);
}

TEST(Pipeline, unknown_paths_methods_and_escapes_have_their_answers) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  expect_error(guest.ask(get("/nowhere")), 404, "not_found", std::nullopt);
  expect_error(guest.ask(get("/job/x")), 400, "malformed", std::nullopt);
  expect_error(guest.ask(get("/now/a%2Fb")), 400, "malformed", std::nullopt);
  expect_error(guest.ask(get("/now/a%0")), 400, "malformed", std::nullopt);
  const Answer answer = guest.ask(post("/now/x", ""));
  expect_error(answer, 405, "method_not_allowed", std::nullopt);
  EXPECT_EQ(answer.field("Allow"), "GET, HEAD");
  EXPECT_EQ(sample.service.state.started, 0);
}

// A service that has decoded nothing yet has no room for a path: it is the first request that tells.
TEST(Pipeline, the_first_request_of_a_service_may_be_any_path) {
  for (const char* path :
       {"/\\", "/a\\b", "/%5c", "/%", "/%zz", "/a%00", "/%2e%2e", "/{", "/|", "/^", "/`"}) {
    SimulatedNode sample;
    expect_error(sample.connect().ask(get(path)), 400, "malformed", std::nullopt);
    EXPECT_EQ(sample.connect().ask(get("/now/x")).body, "x") << path;
  }
}

// --- correlation ids

TEST(Pipeline, a_fit_correlation_id_is_echoed_and_any_other_is_replaced_by_a_ulid) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const auto corr = [&](std::string_view given) {
    return *guest.ask(get("/now/x", fmt::format("X-Corr-ID: {}\r\n", given))).field("X-Corr-ID");
  };
  for (const char* fit : {"12345678", "01J9ZQ4W3E5R6T7Y8K9M0P1Q2S", "9b2e4c6a-1d3f-4a5b-8c7d-0e1f2a3b4c5d"})
    EXPECT_EQ(corr(fit), fit);
  EXPECT_EQ(corr(std::string(64, 'a')), std::string(64, 'a'));
  for (const std::string& unfit : {std::string("1234567"), std::string(65, 'a'), std::string("with blank"),
                                   std::string("quote\"12345")}) {
    const std::string made = corr(unfit);
    EXPECT_TRUE(parse_ulid(made).has_value()) << made;
  }
  EXPECT_NE(corr("short"), corr("short"));
}

TEST(Pipeline, a_malformed_head_is_answered_with_the_correlation_id_it_had) {
  SimulatedNode sample;
  const Answer answer =
      sample.connect().ask("GET / HTTP/1.1\r\nX-Corr-ID: client-chosen\r\nHost : h\r\n\r\n");
  expect_error(answer, 400, "malformed", std::nullopt);
  EXPECT_EQ(answer.field("X-Corr-ID"), "client-chosen");
  EXPECT_THAT(answer.body, HasSubstr(R"("corr_id":"client-chosen")"));
  EXPECT_EQ(answer.field("Connection"), "close");
}

// --- limits, in their order

TEST(Pipeline, the_rate_limit_is_429_quota_with_the_time_to_wait) {
  SimulatedNode sample({{"server.max_rps", "2"}});
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(get("/now/1")).status, 200);
  EXPECT_EQ(guest.ask(get("/now/2")).status, 200);
  expect_error(guest.ask(get("/now/3")), 429, "quota", "1");
  EXPECT_EQ(guest.ask(get("/healthz")).status, 200);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="rate"})"), 1);
  guest.run_for(Duration::millis(600));
  EXPECT_EQ(guest.ask(get("/now/4")).status, 200);
}

TEST(Pipeline, the_inflight_limit_is_429_busy_and_is_given_back) {
  SimulatedNode sample({{"server.max_inflight", "1"}});
  Guest worker = sample.connect();
  Guest other = sample.connect();
  worker.send(get("/job/1000"));
  ASSERT_TRUE(worker.until([&] { return sample.service.state.started == 1; }));
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/job/{ms:Int}"})"), 1);
  expect_error(other.ask(get("/now/x")), 429, "busy", "1");
  expect_error(other.ask(get("/debug/topology")), 429, "busy", "1");
  EXPECT_EQ(other.ask(get("/readyz")).status, 200);
  EXPECT_EQ(worker.answer().status, 200);
  EXPECT_EQ(other.ask(get("/now/x")).status, 200);
  EXPECT_EQ(other.ask(get("/debug/topology")).status, 200);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="inflight"})"), 2);
  EXPECT_EQ(sample.metric(R"(busy_rejections_total{endpoint="/now/{name:Segment}"})"), 1);
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/job/{ms:Int}"})"), 0);
}

TEST(Pipeline, an_answer_that_nobody_takes_gives_its_place_back) {
  SimulatedNode sample({{"server.max_inflight", "1"}});
  Guest gone = sample.connect();
  gone.send(get("/job/1000"));
  ASSERT_TRUE(gone.until([&] { return sample.service.state.started == 1; }));
  gone.close(true);
  Guest other = sample.connect();
  other.run_for(Duration::millis(100));
  EXPECT_EQ(other.ask(get("/now/x")).status, 200);
  EXPECT_EQ(sample.service.state.stops, std::vector{StopReason::client_gone});
}

TEST(Pipeline, a_service_is_told_which_changes_were_refused_before_it_had_them) {
  SimulatedNode sample({{"limits.max_body_bytes", "10B"}, {"server.max_rps", "5"}});
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(post("/guarded", "x")).status, 401);
  EXPECT_EQ(guest.ask(post("/guarded", "x", bearer({"op = sample.read"}))).status, 403);
  EXPECT_EQ(guest.ask(post("/guarded", std::string(100, 'x'), bearer())).status, 413);
  // Not of what needs no capability, nor of a path that is none.
  EXPECT_EQ(guest.ask(post("/echo", std::string(100, 'x'))).status, 413);
  EXPECT_EQ(guest.ask(get("/nowhere")).status, 404);
  EXPECT_EQ(guest.ask(post("/guarded", "x", bearer())).status, 429);
  EXPECT_EQ(sample.service.state.refused,
            (std::vector<std::string>{"sample.write unauthorized", "sample.write forbidden",
                                      "sample.write body_cap known", "sample.write quota"}));
}

TEST(Pipeline, a_length_over_the_cap_is_refused_whatever_the_token_and_then_the_token_before_the_body) {
  SimulatedNode sample({{"limits.max_body_bytes", "10B"}});
  Guest guest = sample.connect();
  const std::string lacking = bearer({"op = sample.read"});
  for (const std::string& token : {std::string(), lacking, bearer()})
    expect_error(guest.ask(post("/guarded", std::string(100, 'x'), token)), 413, "body_cap", std::nullopt);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="body_cap"})"), 3);
  expect_error(guest.ask(post("/guarded", "small", lacking)), 403, "forbidden", std::nullopt);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="unauthorized"})"), 1);
  EXPECT_EQ(sample.service.state.started, 0);
  EXPECT_EQ(guest.ask(post("/guarded", "small", bearer())).status, 200);
}

TEST(Pipeline, a_body_over_its_cap_is_refused_by_its_length_or_while_it_comes) {
  SimulatedNode sample({{"limits.max_body_bytes", "1000B"}});
  expect_error(sample.connect().ask(post("/echo", std::string(1001, 'x'))), 413, "body_cap", std::nullopt);
  EXPECT_EQ(sample.service.state.started, 0);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="body_cap"})"), 1);
  Guest guest = sample.connect();
  const Answer answer =
      guest.ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                std::string(1001, 'x') + "\r\n0\r\n\r\n");
  expect_error(answer, 413, "body_cap", std::nullopt);
  EXPECT_EQ(answer.field("X-Half"), std::nullopt);
  EXPECT_EQ(sample.connect().ask(post("/echo", std::string(1000, 'x'))).status, 200);
}

TEST(Pipeline, a_content_coding_that_is_not_supported_is_415_before_any_work) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  expect_error(guest.ask(post("/echo", "x", "Content-Encoding: br, gzip\r\n")), 415, "unsupported_type",
               std::nullopt);
  expect_error(guest.ask(post("/echo", "x", "Content-Encoding: rot13\r\n")), 415, "unsupported_type",
               std::nullopt);
  expect_error(guest.ask(post("/echo", "x", "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n")), 415,
               "unsupported_type", std::nullopt);
  EXPECT_EQ(sample.service.state.started, 0);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="decode"})"), 3);
  EXPECT_EQ(guest.ask(post("/echo", gzip("hello"), "Content-Encoding: gzip\r\n")).body, "hello");
}

TEST(Pipeline, a_bomb_is_413) {
  SimulatedNode sample({{"limits.decoded_bytes", "100KB"}, {"limits.decoded_ratio", "10"}});
  const std::string bomb = gzip(std::string(90'000, 'x'));
  expect_error(sample.connect().ask(post("/echo", bomb, "Content-Encoding: gzip\r\n")), 413, "decoded_ratio",
               std::nullopt);
}

TEST(Pipeline, the_rate_is_looked_at_before_a_capability_and_the_body) {
  SimulatedNode sample({{"server.max_rps", "1"}, {"limits.max_body_bytes", "1B"}});
  Guest guest = sample.connect();
  expect_error(guest.ask(post("/guarded", "x")), 401, "unauthorized", std::nullopt);
  expect_error(guest.ask(post("/guarded", "large")), 429, "quota", "1");
}

TEST(Pipeline, the_inflight_cap_is_looked_at_before_the_rate) {
  SimulatedNode sample({{"server.max_rps", "1"}, {"server.max_inflight", "1"}});
  Guest worker = sample.connect();
  worker.send(get("/job/1000"));
  ASSERT_TRUE(worker.until([&] { return sample.service.state.started == 1; }));
  expect_error(sample.connect().ask(get("/now/x")), 429, "busy", "1");
}

// --- connection caps

TEST(Pipeline, beyond_the_caps_a_connection_serves_health_only) {
  SimulatedNode sample({{"server.max_conns", "1"}});
  Guest inside = sample.connect();
  EXPECT_EQ(inside.ask(get("/now/x")).status, 200);
  Guest beyond = sample.connect();
  for (const char* path : {"/healthz", "/readyz", "/version", "/metrics"}) {
    const Answer answer = beyond.ask(get(path));
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.field("Connection"), std::nullopt) << path;
  }
  const Answer answer = beyond.ask(get("/now/x"));
  expect_error(answer, 429, "busy", "1");
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(beyond.until_ended());
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="connections"})"), 1);
  inside.close();
  inside.run_for(Duration::millis(10));
  EXPECT_EQ(sample.connect().ask(get("/now/x")).status, 200);
}

TEST(Pipeline, beyond_the_caps_any_other_request_is_busy_whatever_it_is) {
  SimulatedNode sample({{"server.max_conns", "1"}, {"timeouts.request", "60s"}});
  Guest inside = sample.connect();
  inside.send(get("/job/50000"));  // who is busy does not give way
  for (const std::string& request :
       {get("/nowhere"), get("/debug/topology"), get("/now/a%2Fb"), post("/healthz", "")}) {
    Guest beyond = sample.connect();
    const Answer answer = beyond.ask(request);
    expect_error(answer, 429, "busy", "1");
    EXPECT_EQ(answer.field("Connection"), "close") << request;
    EXPECT_TRUE(beyond.until_ended(Duration::seconds(5)));
  }
}

TEST(Pipeline, beyond_sixteen_reserved_connections_nobody_is_let_in) {
  SimulatedNode sample({{"server.max_conns", "1"}});
  Guest inside = sample.connect();
  std::vector<std::unique_ptr<Guest>> reserved;
  for (int i = 0; i < 16; ++i) {
    reserved.push_back(
        std::make_unique<Guest>(sample.world, sample.away, Endpoint{"host", SimulatedNode::port, {}}));
    EXPECT_EQ(reserved.back()->ask(get("/healthz")).status, 200);
  }
  Guest refused = sample.connect();
  expect_error(refused.ask(get("/healthz")), 429, "busy", "1");
  EXPECT_TRUE(refused.until_ended());
  reserved.pop_back();
  inside.run_for(Duration::millis(10));
  EXPECT_EQ(sample.connect().ask(get("/healthz")).status, 200);
}

TEST(Pipeline, an_address_has_its_own_cap) {
  SimulatedNode sample({{"server.max_conns_per_ip", "2"}});
  Guest first = sample.connect();
  Guest second = sample.connect();
  Guest third = sample.connect();
  expect_error(third.ask(get("/now/x")), 429, "busy", "1");
  io::sim::Node& elsewhere = sample.world.add_node("elsewhere");
  Guest other(sample.world, elsewhere, {"host", SimulatedNode::port, {}});
  EXPECT_EQ(other.ask(get("/now/x")).status, 200);
}

// --- capabilities

TEST(Pipeline, without_a_genuine_token_the_answer_is_401_and_says_what_is_wanted) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  std::string forged = bearer();
  forged[forged.size() - 6] = forged[forged.size() - 6] == 'A' ? 'B' : 'A';
  const std::string basic = "Authorization: Basic dXNlcjpwYXNz\r\n";
  for (const std::string& fields : {std::string(), forged, basic, bearer() + bearer()}) {
    const Answer answer = guest.ask(post("/guarded", "x", fields));
    expect_error(answer, 401, "unauthorized", std::nullopt);
    EXPECT_EQ(answer.field("WWW-Authenticate"), "Bearer");
  }
  EXPECT_EQ(sample.service.state.started, 0);
  EXPECT_EQ(guest.ask(post("/guarded", "x", bearer())).status, 200);
}

TEST(Pipeline, a_caveat_sees_the_request_as_it_is) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const auto status = [&](const std::string& caveat, std::string_view body = "12345") {
    return guest.ask(post("/guarded", body, bearer({caveat}))).status;
  };
  EXPECT_EQ(status("op = sample.read sample.write"), 200);
  EXPECT_EQ(status("op = sample.read"), 403);
  EXPECT_EQ(status("svc = sample"), 200);
  EXPECT_EQ(status("svc = storage"), 403);
  EXPECT_EQ(status("max_bytes <= 5"), 200);
  EXPECT_EQ(status("max_bytes <= 4"), 403);
  EXPECT_EQ(status("expires < 2026-01-01T01:00:00Z"), 200);
  EXPECT_EQ(status("expires < 2026-01-01T00:00:00Z"), 403);
  EXPECT_EQ(status("ip = 10.0.0.0/8"), 200);
  EXPECT_EQ(status("ip = 192.168.0.0/16"), 403);
  EXPECT_EQ(status("addr = b3:" + std::string(64, 'a')), 403) << "the route is about no address";
  EXPECT_EQ(status("colour = green"), 403);
}

TEST(Pipeline, a_size_that_nobody_can_tell_is_not_within_a_limit) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const std::string token = bearer({"max_bytes <= 1000000"});
  const std::string packed = gzip("hello");
  EXPECT_EQ(guest.ask(post("/guarded", packed, token + "Content-Encoding: gzip\r\n")).status, 403);
  EXPECT_EQ(guest
                .ask("POST /guarded HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + token +
                     "\r\n1\r\nx\r\n0\r\n\r\n")
                .status,
            403);
}

TEST(Pipeline, reading_is_public_unless_the_configuration_says_otherwise) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const std::string path = "/object/b3:" + std::string(64, 'a');
  EXPECT_EQ(guest.ask(get(path)).status, 200);
  EXPECT_EQ(guest.ask(get(path, "Authorization: Bearer nonsense\r\n")).status, 200);
  sample.apply({{"auth.reads", "required"}});
  EXPECT_EQ(guest.ask(get(path)).status, 401);
  EXPECT_EQ(guest.ask(get(path, bearer({"op = sample.read"}))).status, 200);
  EXPECT_EQ(guest.ask(get(path, bearer({"addr = b3:" + std::string(64, 'a')}))).status, 200);
  EXPECT_EQ(guest.ask(get(path, bearer({"addr = b3:" + std::string(64, 'b')}))).status, 403);
  EXPECT_EQ(guest.ask(get("/healthz")).status, 200);
}

TEST(Pipeline, a_revoked_key_voids_its_tokens_on_every_shard) {
  SimulatedNode sample({}, {.shards = 3, .workers = 2, .seed = 5});
  std::vector<std::unique_ptr<Guest>> guests;
  for (int i = 0; i < 12; ++i) {
    guests.push_back(
        std::make_unique<Guest>(sample.world, sample.away, Endpoint{"host", SimulatedNode::port, {}}));
    EXPECT_EQ(guests.back()->ask(post("/guarded", "x", bearer())).status, 200);
  }
  const std::string path = "/admin/keys/" + sample_root_key().id + "/revoke";
  Guest& first = *guests.front();
  expect_error(first.ask(post(path, "")), 401, "unauthorized", std::nullopt);
  expect_error(first.ask(post(path, "", bearer({"op = sample.write"}))), 403, "forbidden", std::nullopt);
  expect_error(first.ask(post("/admin/keys/0123456789abcdef/revoke", "", bearer())), 404, "not_found",
               std::nullopt);
  EXPECT_EQ(first.ask(post(path, "", bearer({"op = sample.admin"}))).status, 204);
  for (auto& guest : guests) EXPECT_EQ(guest->ask(post("/guarded", "x", bearer())).status, 401);
}

TEST(Pipeline, an_open_service_asks_for_nothing_and_has_no_keys_to_revoke) {
  SimulatedNode sample({{"auth.reads", "required"}}, {.open = true});
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(post("/guarded", "x")).status, 200);
  EXPECT_EQ(guest.ask(get("/object/b3:" + std::string(64, 'a'))).status, 200);
  EXPECT_EQ(guest.ask(post("/admin/keys/0123456789abcdef/revoke", "")).status, 404);
}

TEST(Pipeline, no_token_is_logged_or_told) {
  SimulatedNode sample({{"auth.reads", "required"}});
  Guest guest = sample.connect();
  const std::string token = bearer({"op = nothing"});
  const std::string secret = token.substr(22, 20);
  const Answer denied = guest.ask(post("/guarded", "x", token));
  EXPECT_EQ(denied.status, 403);
  EXPECT_THAT(denied.head + denied.body, Not(HasSubstr(secret)));
  EXPECT_EQ(guest.ask(get("/throw", token)).status, 500);
  const std::string log = sample.logged();
  EXPECT_THAT(log, HasSubstr("the handler's reason"));
  EXPECT_THAT(log, Not(HasSubstr(secret)));
}

// --- bodies that are staged

std::string half_a_body() { return "POST /staged HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345"; }

TEST(Pipeline, a_staged_body_reaches_the_worker) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(post("/staged", "hello")).body, "hello");
  EXPECT_EQ(guest.ask(post("/staged", gzip("hello"), "Content-Encoding: gzip\r\n")).body, "hello");
  EXPECT_EQ(guest.ask(post("/staged", "")).body, "");
  EXPECT_EQ(sample.service.state.staged, 0) << "kept no longer than the handler";
}

TEST(Pipeline, slow_bodies_hold_no_worker_and_no_place_in_the_queue) {
  SimulatedNode sample({{"queues.work", "1"}}, {.shards = 1, .workers = 1, .seed = 1});
  std::vector<std::unique_ptr<Guest>> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(
        std::make_unique<Guest>(sample.world, sample.away, Endpoint{"host", SimulatedNode::port, {}}));
    slow.back()->send(half_a_body());
  }
  Guest ninth = sample.connect();
  ASSERT_TRUE(ninth.until([&] { return sample.service.state.staging == 8; }));
  EXPECT_EQ(sample.service.state.started, 0);
  EXPECT_EQ(sample.metric(R"(queue_depth{queue="work"})"), 0);
  EXPECT_EQ(ninth.ask(get("/job/1")).status, 200);
  EXPECT_EQ(ninth.ask(post("/staged", "fast")).body, "fast");
  for (auto& guest : slow) {
    guest->send("67890");
    EXPECT_EQ(guest->answer().body, "1234567890");
  }
}

TEST(Pipeline, a_full_queue_refuses_before_the_body_comes) {
  SimulatedNode sample({{"queues.work", "1"}});
  Guest running = sample.connect();
  Guest queued = sample.connect();
  Guest third = sample.connect();
  running.send(get("/job/1000"));
  ASSERT_TRUE(running.until([&] { return sample.service.state.started == 1; }));
  queued.send(get("/job/1"));
  queued.run_for(Duration::millis(10));
  third.send(half_a_body());
  expect_error(third.answer(), 429, "busy", "1");
  EXPECT_EQ(sample.service.state.staging, 0);
  EXPECT_EQ(sample.metric(R"(queue_dropped_total{queue="work"})"), 1);
  EXPECT_EQ(queued.answer().status, 200);
}

TEST(Pipeline, an_error_of_staging_is_answered_as_one_of_the_handler) {
  SimulatedNode sample({{"limits.max_body_bytes", "1000B"}, {"timeouts.request", "20s"}});
  const Answer answer =
      sample.connect().ask("POST /staged HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                           std::string(1001, 'x') + "\r\n0\r\n\r\n");
  expect_error(answer, 413, "body_cap", std::nullopt);
  Guest slow = sample.connect();
  slow.send(half_a_body());
  expect_error(slow.answer(false, Duration::seconds(6)), 408, "timeout_read", std::nullopt);
  const Answer thrown = sample.connect().ask(post("/stage-throw", "x", "X-Corr-ID: find-me-in-the-log\r\n"));
  expect_error(thrown, 500, "internal", std::nullopt);
  EXPECT_THAT(sample.logged(), HasSubstr("the stage's reason"));
  EXPECT_EQ(sample.service.state.started, 0);
  EXPECT_EQ(sample.service.state.staged, 0);
}

TEST(Pipeline, a_client_that_leaves_while_its_body_is_staged_leaves_nothing_behind) {
  SimulatedNode sample({{"server.max_inflight", "1"}});
  Guest leaver = sample.connect();
  leaver.send(half_a_body());
  ASSERT_TRUE(leaver.until([&] { return sample.service.state.staging == 1; }));
  leaver.close(true);
  Guest other = sample.connect();
  other.run_for(Duration::millis(100));
  EXPECT_EQ(sample.service.state.staging, 0);
  EXPECT_EQ(sample.service.state.staged, 0);
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/staged"})"), 0);
  EXPECT_EQ(other.ask(post("/staged", "next")).body, "next");
  EXPECT_EQ(sample.service.state.started, 1);
}

TEST(Pipeline, the_deadline_ends_staging) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send("POST /staged HTTP/1.1\r\nHost: h\r\nX-Deadline-Ms: 200\r\nContent-Length: 10\r\n\r\n12345");
  expect_error(guest.answer(false, Duration::millis(300)), 504, "timeout", std::nullopt);
  EXPECT_EQ(sample.service.state.staged, 0);
}

// --- the queue

TEST(Pipeline, a_full_queue_is_429_busy_and_counted) {
  SimulatedNode sample({{"queues.work", "2"}});
  Guest running = sample.connect();
  Guest second = sample.connect();
  Guest third = sample.connect();
  Guest fourth = sample.connect();
  running.send(get("/job/1000"));
  ASSERT_TRUE(running.until([&] { return sample.service.state.started == 1; }));
  second.send(get("/job/1"));
  third.send(get("/job/1"));
  third.run_for(Duration::millis(10));
  EXPECT_EQ(sample.metric(R"(queue_depth{queue="work"})"), 2);
  expect_error(fourth.ask(get("/job/1")), 429, "busy", "1");
  EXPECT_EQ(sample.metric(R"(queue_dropped_total{queue="work"})"), 1);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="queue"})"), 1);
  EXPECT_EQ(fourth.ask(get("/now/x")).status, 200);
  for (Guest* guest : {&running, &second, &third}) EXPECT_EQ(guest->answer().status, 200);
  EXPECT_EQ(fourth.ask(get("/job/1")).status, 200);
  EXPECT_EQ(sample.metric(R"(queue_depth{queue="work"})"), 0);
}

TEST(Pipeline, queued_requests_run_in_their_order) {
  SimulatedNode sample;
  Guest first = sample.connect();
  Guest second = sample.connect();
  first.send(get("/job/1000"));
  ASSERT_TRUE(first.until([&] { return sample.service.state.started == 1; }));
  second.send(get("/job/1000"));
  EXPECT_EQ(first.answer().status, 200);
  EXPECT_EQ(second.got(), "");
  EXPECT_EQ(second.answer().status, 200);
}

TEST(Pipeline, what_is_queued_when_its_deadline_passes_is_504_and_never_started) {
  SimulatedNode sample;
  Guest first = sample.connect();
  Guest second = sample.connect();
  first.send(get("/job/2000"));
  ASSERT_TRUE(first.until([&] { return sample.service.state.started == 1; }));
  second.send(get("/job/1", "X-Deadline-Ms: 500\r\n"));
  expect_error(second.answer(false, Duration::millis(600)), 504, "timeout", std::nullopt);
  EXPECT_EQ(first.answer().status, 200);
  first.run_for(Duration::seconds(1));
  EXPECT_EQ(sample.service.state.started, 1);
  // Its place in the queue is free again.
  EXPECT_EQ(second.ask(get("/job/1")).status, 200);
}

TEST(Pipeline, a_deadline_that_passes_as_the_worker_comes_is_never_started) {
  int in_time = 0, late = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SimulatedNode sample({}, {.shards = 1, .workers = 1, .seed = seed});
    sample.world.set_step_cost(Duration{0});
    Guest first = sample.connect();
    Guest second = sample.connect();
    first.send(get("/job/100"));
    second.send(get("/job/1", "X-Deadline-Ms: 100\r\n"));
    ++(second.answer().status == 504 ? late : in_time);
    EXPECT_EQ(first.answer().status, 200);
    EXPECT_EQ(sample.service.state.started_late, 0) << "seed " << seed;
  }
  EXPECT_GT(late, 0);
  EXPECT_GT(in_time, 0);
}

TEST(Pipeline, a_request_left_in_the_queue_takes_nothing_from_those_behind_it) {
  SimulatedNode sample({{"queues.work", "3"}});
  Guest first = sample.connect();
  Guest leaver = sample.connect();
  Guest third = sample.connect();
  first.send(get("/job/1000"));
  ASSERT_TRUE(first.until([&] { return sample.service.state.started == 1; }));
  leaver.send(get("/job/1"));
  leaver.run_for(Duration::millis(10));
  third.send(get("/job/1"));
  third.run_for(Duration::millis(10));
  leaver.close(true);
  EXPECT_EQ(first.answer().status, 200);
  EXPECT_EQ(third.answer().status, 200);
  EXPECT_EQ(sample.service.state.started, 2);
}

TEST(Pipeline, the_deadline_ends_what_has_started) {
  SimulatedNode sample({{"timeouts.request", "2s"}});
  Guest guest = sample.connect();
  guest.send(get("/job/60000"));
  const Answer answer = guest.answer(false, Duration::millis(2100));
  expect_error(answer, 504, "timeout", std::nullopt);
  EXPECT_EQ(answer.field("X-Half"), std::nullopt);
  EXPECT_EQ(sample.service.state.stops, std::vector{StopReason::deadline});
  EXPECT_EQ(guest.ask(get("/now/x")).status, 200);
}

TEST(Pipeline, a_body_that_does_not_come_is_408) {
  SimulatedNode sample({{"timeouts.request", "20s"}});
  Guest guest = sample.connect();
  guest.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  expect_error(guest.answer(false, Duration::seconds(6)), 408, "timeout_read", std::nullopt);
  EXPECT_EQ(sample.metric(R"(io_timeouts_total{op="read"})"), 1);
}

// --- failures

TEST(Pipeline, an_exception_is_500_and_logged_with_the_correlation_id) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const Answer answer = guest.ask(get("/throw", "X-Corr-ID: find-me-in-the-log\r\n"));
  expect_error(answer, 500, "internal", std::nullopt);
  EXPECT_EQ(answer.field("X-Half"), std::nullopt);
  EXPECT_THAT(answer.body, Not(HasSubstr("the handler's reason")));
  const std::string log = sample.logged();
  EXPECT_THAT(log, HasSubstr(R"("corr_id":"find-me-in-the-log")"));
  EXPECT_THAT(log, HasSubstr("the handler's reason"));
  EXPECT_EQ(guest.ask(get("/job/1")).status, 200);  // the worker lives
}

TEST(Pipeline, an_exception_at_once_is_500_and_gives_its_place_back) {
  SimulatedNode sample({{"server.max_inflight", "1"}});
  expect_error(sample.connect().ask(get("/throw-now")), 500, "internal", std::nullopt);
  EXPECT_EQ(sample.connect().ask(get("/now/x")).status, 200);
}

TEST(Pipeline, an_error_of_the_service_is_answered_by_its_code) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const Answer answer = guest.ask(get("/fail/not_found"));
  expect_error(answer, 404, "not_found", std::nullopt);
  EXPECT_EQ(answer.field("X-Half"), std::nullopt);
  expect_error(guest.ask(get("/fail/storage_full")), 507, "storage_full", "1");
  expect_error(guest.ask(get("/fail/io_failed")), 500, "internal", std::nullopt);
}

// --- health

TEST(Pipeline, health_answers_with_its_bodies) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(get("/healthz")).body, "ok\n");
  EXPECT_EQ(guest.ask(get("/version")).body,
            R"({"service":"sample","version":"1.2.3","git":"abc","build":"debug","features":["http/1.1"]})");
  Answer ready = guest.ask(get("/readyz"));
  EXPECT_EQ(ready.status, 200);
  EXPECT_EQ(ready.body, R"({"ready":true,"write_ready":true,"degraded":false,"missing":[]})");
  sample.node.health().set("bus", false);
  ready = guest.ask(get("/readyz"));
  EXPECT_EQ(ready.status, 200);
  EXPECT_EQ(ready.body, R"({"ready":true,"write_ready":false,"degraded":true,"missing":["bus"]})");
  sample.node.health().set("store", false);
  ready = guest.ask(get("/readyz"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.field("Retry-After"), "1");
  EXPECT_EQ(
      ready.body,
      R"({"ready":false,"write_ready":false,"degraded":true,"missing":["store","bus"],"retry_after":1})");
  EXPECT_EQ(guest.ask(get("/healthz")).status, 200);
  EXPECT_THAT(guest.ask(get("/metrics")).body, HasSubstr("build_info{"));
  EXPECT_THAT(guest.ask(get("/debug/topology")).body, HasSubstr("\"depth\":0"));
}

// --- metrics

// V-3
TEST(Pipeline, a_flood_of_scrapes_is_told_the_last_rendering_and_the_next_window_a_fresh_one) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send(get("/now/x"));
  EXPECT_EQ(guest.answer().status, 200);
  std::string flood;
  for (unsigned i = 0; i < 3 * renderings_max; ++i) flood += get("/metrics") + get("/now/x");
  guest.send(flood);
  std::set<std::string> seen;
  for (unsigned i = 0; i < 3 * renderings_max; ++i) {
    seen.insert(guest.answer().body);
    EXPECT_EQ(guest.answer().body, "x");
  }
  EXPECT_LE(seen.size(), renderings_max);
  sample.world.run_for(rendering_window);
  const std::string line = R"(http_requests_total{route="/now/{name:Segment}",method="GET",status="200"} )";
  EXPECT_THAT(guest.ask(get("/metrics")).body, HasSubstr(line + std::to_string(3 * renderings_max + 1)));
}

TEST(Pipeline, requests_are_counted_by_route_method_and_status) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(get("/now/a")).status, 200);
  EXPECT_EQ(guest.ask(get("/now/b")).status, 200);
  EXPECT_EQ(guest.ask(post("/now/b", "")).status, 405);
  EXPECT_EQ(guest.ask(get("/nowhere")).status, 404);
  EXPECT_EQ(guest.ask(get("/fail/quota")).status, 429);
  EXPECT_EQ(guest.ask("BAD / HTTP/1.1\r\nHost: h\r\n\r\n").status, 501);
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="/now/{name:Segment}",method="GET",status="200"})"),
            2);
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="other",method="POST",status="405"})"), 1);
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="other",method="GET",status="404"})"), 1);
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="/fail/{code:Name}",method="GET",status="429"})"), 1);
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="other",method="GET",status="501"})"), 1);
  EXPECT_EQ(sample.metric(R"(request_latency_seconds_count{route="/now/{name:Segment}",method="GET"})"), 2);
}

TEST(Pipeline, every_refused_head_is_counted) {
  SimulatedNode sample;
  EXPECT_EQ(sample.connect().ask("GET / HTTP/1.1\r\nHost : h\r\n\r\n").status, 400);
  EXPECT_EQ(sample.connect().ask("POST / HTTP/1.1\r\nHost : h\r\n\r\n").status, 400);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="head"})"), 2);
}

TEST(Pipeline, methods_and_versions_that_are_not_served_are_counted_as_refused_heads) {
  SimulatedNode sample;
  EXPECT_EQ(sample.connect().ask("BREW / HTTP/1.1\r\nHost: h\r\n\r\n").status, 501);
  EXPECT_EQ(sample.connect().ask("GET / HTTP/2.0\r\nHost: h\r\n\r\n").status, 505);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="head"})"), 2);
}

TEST(Pipeline, a_body_that_turns_out_too_large_is_counted_as_refused) {
  SimulatedNode sample({{"limits.max_body_bytes", "1000B"}, {"limits.decoded_bytes", "10KB"}});
  const std::string chunked = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                              std::string(2000, 'x') + "\r\n0\r\n\r\n";
  EXPECT_EQ(sample.connect().ask(chunked).status, 413);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="body_cap"})"), 1);
  const std::string bomb = gzip(std::string(90'000, 'x'));
  for (const char* target : {"/echo", "/staged"})
    EXPECT_EQ(sample.connect().ask(post(target, bomb, "Content-Encoding: gzip\r\n")).status, 413);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="decoded_ratio"})"), 2);
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="decoded_cap"})"), 0);
  SimulatedNode narrow({{"limits.decoded_bytes", "2KiB"}});
  std::string text;
  for (unsigned i = 0; i < 500; ++i) text += fmt::format("{:x}", i * 2654435761u);
  EXPECT_EQ(narrow.connect().ask(post("/echo", gzip(text), "Content-Encoding: gzip\r\n")).status, 413);
  EXPECT_EQ(narrow.metric(R"(rejected_total{reason="decoded_cap"})"), 1);
  EXPECT_EQ(narrow.metric(R"(rejected_total{reason="decoded_ratio"})"), 0);
}

TEST(Pipeline, what_a_handler_or_its_queue_refuses_is_counted) {
  SimulatedNode sample;
  EXPECT_EQ(sample.connect().ask(get("/fail/busy")).status, 429);
  EXPECT_EQ(sample.metric(R"(busy_rejections_total{endpoint="/fail/{code:Name}"})"), 1);
  // The sample's words are those of its queue `jobs`, and of no other.
  EXPECT_EQ(sample.metric(R"(queue_dropped_total{queue="jobs"})"), 1);
  EXPECT_EQ(sample.metric(R"(queue_dropped_total{queue="work"})"), 0);
}

TEST(Pipeline, an_answer_nobody_received_is_counted_as_499) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send(get("/job/1000"));
  ASSERT_TRUE(guest.until([&] { return sample.service.state.started == 1; }));
  sample.world.network().reset_all(sample.away.index());
  guest.run_for(Duration::millis(10));
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="/job/{ms:Int}",method="GET",status="499"})"), 1);
}

TEST(Pipeline, the_limits_hold_over_all_shards) {
  SimulatedNode sample({{"server.max_inflight", "2"}, {"queues.work", "100"}},
                       {.shards = 3, .workers = 4, .seed = 7});
  std::vector<std::unique_ptr<Guest>> guests;
  for (int i = 0; i < 12; ++i) {
    guests.push_back(
        std::make_unique<Guest>(sample.world, sample.away, Endpoint{"host", SimulatedNode::port, {}}));
    guests.back()->send(get("/job/500"));
  }
  int served = 0, busy = 0;
  for (auto& guest : guests) ++(guest->answer().status == 200 ? served : busy);
  EXPECT_EQ(served, 2);
  EXPECT_EQ(busy, 10);
}

// --- the shares of addresses

// One address floods, another asks now and then.
struct Crowd {
  explicit Crowd(SettingTexts settings)
      : sample(std::move(settings), {.shards = 2, .workers = 8, .seed = 5}) {}
  std::unique_ptr<Guest> connect(io::sim::Node& from) {
    return std::make_unique<Guest>(sample.world, from, Endpoint{"host", SimulatedNode::port, {}});
  }
  SimulatedNode sample;
  io::sim::Node& other = sample.world.add_node("other");
};

TEST(Pipeline, bodies_that_trickle_from_one_address_leave_places_for_others) {
  Crowd crowd({{"server.max_inflight", "16"}, {"queues.work", "100"}});
  std::vector<std::unique_ptr<Guest>> flood;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(crowd.connect(crowd.sample.away));
    flood.back()->send("POST /staged HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx");
  }
  ASSERT_TRUE(flood[0]->until([&] { return crowd.sample.service.state.staging == 16; }));
  auto quiet = crowd.connect(crowd.other);
  EXPECT_EQ(quiet->ask(get("/job/1")).status, 200);
  EXPECT_EQ(quiet->ask(post("/staged", "abc")).status, 200);
  EXPECT_EQ(crowd.connect(crowd.sample.away)->ask(get("/now/x")).status, 429);
}

TEST(Pipeline, a_flood_of_requests_from_one_address_leaves_half_of_the_rate_to_others) {
  Crowd crowd({{"server.max_rps", "80"}});
  auto flood = crowd.connect(crowd.sample.away), quiet = crowd.connect(crowd.other);
  std::string many;
  for (int i = 0; i < 400; ++i) many += get("/now/x");
  int served = 0;
  for (int i = 0; i < 50; ++i) {
    if (i % 10 == 0) flood->send(many);
    flood->run_for(Duration::millis(50));
    served += quiet->ask(get("/now/y")).status == 200 ? 1 : 0;
  }
  EXPECT_EQ(served, 50);
}

TEST(Pipeline, a_trusted_address_is_held_to_no_share) {
  Crowd crowd({{"server.max_inflight", "16"}, {"queues.work", "100"}, {"server.trusted", "::/0"}});
  auto quiet = crowd.connect(crowd.other);
  EXPECT_EQ(quiet->ask(get("/now/x")).status, 200);
  std::vector<std::unique_ptr<Guest>> many;
  for (int i = 0; i < 16; ++i) {
    many.push_back(crowd.connect(crowd.sample.away));
    many.back()->send(get("/job/500"));
  }
  ASSERT_TRUE(
      quiet->until([&] { return crowd.sample.metric("inflight_requests{route=\"/job/{ms:Int}\"}") == 16; }));
  EXPECT_EQ(quiet->ask(get("/now/x")).status, 429);
  for (auto& each : many) EXPECT_EQ(each->answer().status, 200);
}

}  // namespace
}  // namespace cairn::serve
