// Requests on their way through the gateway: to a service of the same process, and to one that speaks
// HTTP/1.1 well or badly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "crypto/key_ring.h"
#include "crypto/macaroon.h"
#include "crypto/sample_object.h"
#include "services/gateway/simulated_gateway.h"
#include "services/gateway/verified.h"

namespace cairn::gateway {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;
using testing::Not;
using Reply = ScriptedUpstream::Reply;

constexpr char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const io::Endpoint front_door{"host", SimulatedGateway::port, {}};

// A gateway before a scripted upstream.
struct Outside {
  explicit Outside(ScriptedUpstream::Script script, SettingTexts settings = {}, std::uint64_t seed = 1)
      : gateway({.inside = false, .settings = std::move(settings), .seed = seed}),
        upstream(gateway.world, gateway.behind, SimulatedGateway::behind_port, std::move(script)) {}
  // The world's tasks use the upstream.
  ~Outside() {
    gateway.drain(Duration::millis(1));
    gateway.world.run_until([this] { return gateway.ended; });
    gateway.world.crash(gateway.behind);
  }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  SimulatedGateway gateway;
  ScriptedUpstream upstream;
};

// --- in the same process

TEST(Forward, an_object_passes_with_its_fields) {
  SimulatedGateway gateway;
  const Answer answer = gateway.ask(get("/o/object"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, gateway.plain.state.object);
  EXPECT_EQ(answer.field("ETag"), "\"one\"");
  EXPECT_EQ(answer.field("Content-Type"), "text/x-object");
  EXPECT_EQ(answer.field("Content-Length"), "1024");
}

TEST(Forward, head_and_304_and_405_stay_what_they_are) {
  SimulatedGateway gateway;
  Guest guest = gateway.connect();
  guest.send("HEAD /o/object HTTP/1.1\r\nHost: h\r\n\r\n");
  const Answer head = guest.answer(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.field("Content-Length"), "1024");
  EXPECT_EQ(head.field("Content-Type"), "text/x-object");
  const Answer same = guest.ask(get("/o/object", "If-None-Match: \"one\"\r\n"));
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.field("ETag"), "\"one\"");
  const Answer wrong = guest.ask("DELETE /o/object HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.field("Allow"), "GET, HEAD");
  EXPECT_THAT(wrong.body, HasSubstr("method_not_allowed"));
  EXPECT_EQ(guest.ask(get("/o/object")).status, 200);
}

// The slot is held for a moment alone: a client that reads slowly holds none.
TEST(Forward, what_is_in_memory_is_answered_without_a_task_and_counted_as_the_rest) {
  SimulatedGateway gateway;
  gateway.plain.state.object.assign(300'000, 'x');
  EXPECT_EQ(gateway.ask(get("/o/object")).body.size(), 300'000u);
  EXPECT_EQ(gateway.metric(R"(http_requests_total{route="/o/{rest:Rest}",method="GET",status="200"})"), 1);
  EXPECT_EQ(gateway.metric(R"(drr_served_units_total{tenant="other"})"), 5)
      << "one for the request, and what its 300,000 bytes are beyond the first 64 KiB";
}

TEST(Forward, what_has_to_wait_goes_on_where_it_has_begun) {
  SimulatedGateway gateway;
  gateway.wait_until_it_serves();
  Guest guest = gateway.connect();
  guest.send(get("/o/wait", "X-Deadline-Ms: 60000\r\n"));
  EXPECT_EQ(guest.answer().status, 504) << "no upstream is given more than timeouts.request";
  EXPECT_EQ(gateway.plain.state.asked, 1);
  EXPECT_EQ(gateway.metric(R"(drr_served_units_total{tenant="other"})"), 1) << "it was charged once";
}

TEST(Forward, the_service_learns_who_asks_and_under_which_name) {
  SimulatedGateway gateway;
  const Answer answer = gateway.ask(get("/o/object",
                                        "X-Corr-ID: somebody-1\r\nX-Forwarded-For: 1.2.3.4\r\n"
                                        "Forwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"
                                        "Connection: X-Secret, keep-alive\r\nX-Secret: 1\r\nX-Own: 2\r\n"));
  EXPECT_EQ(answer.field("X-Corr-ID"), "somebody-1");
  EXPECT_EQ(answer.head.find("X-Corr-ID"), answer.head.rfind("X-Corr-ID"));
  const std::string& seen = gateway.plain.state.fields;
  EXPECT_THAT(seen, HasSubstr("X-Corr-ID: somebody-1\n"));
  EXPECT_THAT(seen, HasSubstr("raceparent: 00-"));
  EXPECT_THAT(seen, HasSubstr("Host: h\n"));
  EXPECT_THAT(seen, HasSubstr("X-Own: 2\n"));
  EXPECT_THAT(seen, Not(HasSubstr("1.2.3.4")));
  EXPECT_THAT(seen, Not(HasSubstr("X-Secret")));
  EXPECT_NE(gateway.plain.state.peer, io::PeerAddress());
}

TEST(Forward, the_service_learns_whether_the_client_came_over_tls) {
  SimulatedGateway gateway({.settings = {{"server.trusted", "::/0"}}});
  Guest guest = gateway.connect();
  for (const bool encrypted : {true, false, true}) {
    const char* const proto = encrypted ? "https" : "http";
    EXPECT_EQ(guest.ask(get("/o/object", fmt::format("Forwarded: for=1.2.3.4;proto={}\r\n", proto))).status,
              200);
    EXPECT_EQ(gateway.plain.state.encrypted, encrypted);
    EXPECT_EQ(guest.ask(post("/o", "x", fmt::format("Forwarded: for=1.2.3.4;proto={}\r\n", proto))).status,
              201);
    EXPECT_EQ(gateway.plain.state.encrypted, encrypted);
  }
}

TEST(Forward, a_body_passes_both_ways_in_every_size) {
  SimulatedGateway gateway;
  Guest guest = gateway.connect();
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 300000u}) {
    const std::string text(size, 'b');
    const Answer answer = guest.ask(post("/o", text));
    EXPECT_EQ(answer.status, 201);
    EXPECT_EQ(answer.field("Location"), "/o/echo");
    EXPECT_EQ(answer.body, text);
  }
  guest.send("POST /o HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(guest.answer(true).status, 100);
  guest.send("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(guest.answer().body, "abcde");
}

TEST(Forward, an_answer_that_is_cut_short_never_ends_cleanly) {
  SimulatedGateway gateway;
  Guest guest = gateway.connect();
  guest.send(get("/o/cut"));
  ASSERT_TRUE(guest.until_ended());
  const Answer answer = guest.answer();
  EXPECT_FALSE(answer.whole);
}

TEST(Forward, a_client_that_leaves_ends_the_work_behind_the_gateway) {
  SimulatedGateway gateway;
  Guest guest = gateway.connect();
  guest.send(get("/o/wait"));
  ASSERT_TRUE(guest.until([&] { return gateway.plain.state.asked == 1; }));
  guest.close();
  EXPECT_TRUE(
      gateway.world.run_until([&] { return gateway.plain.state.stopped == 1; }, Duration::seconds(1)));
}

TEST(Forward, a_long_poll_and_a_stream_may_last) {
  SimulatedGateway gateway(
      {.settings = {{"timeouts.request", "1s"}}, .plain_settings = {{"timeouts.request", "1s"}}});
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(get("/registry/head?wait=30s")).body, "waited");
  EXPECT_EQ(guest.ask(get("/registry/head")).status, 504);
  Guest listener = gateway.connect();
  listener.send(get("/registry/stream"));
  EXPECT_TRUE(listener.until([&] { return listener.got().find("id: 5") != std::string::npos; }));
  listener.close();
}

TEST(Forward, what_is_not_built_says_so) {
  SimulatedGateway gateway;
  for (const char* path : {"/resolve/a", "/names", "/search/x", "/edge/x"}) {
    const Answer answer = gateway.ask(get(path));
    EXPECT_EQ(answer.status, 501) << path;
    EXPECT_THAT(answer.body, HasSubstr("not_implemented"));
  }
  EXPECT_EQ(gateway.ask(get("/elsewhere")).status, 404);
}

TEST(Forward, a_bomb_is_refused_by_the_gateway) {
  SimulatedGateway gateway({.settings = {{"limits.decoded_bytes", "1KiB"}}});
  // 64 KiB of zeroes, by zlib.
  const std::string bomb = std::string("\x78\xda\xed\xc1\x01\x01\0\0\0\x80\x90\xfe\xaf\xee\x08\x0a", 16) +
                           std::string(63, '\0') + std::string("\x6a\0\x0f\0\x01", 5);
  const Answer answer = gateway.ask(post("/o", bomb, "Content-Encoding: deflate\r\n"));
  EXPECT_EQ(answer.status, 413) << answer.body;
  EXPECT_EQ(gateway.metric(R"(rejected_total{reason="decoded_cap"})"), 1);
}

TEST(Forward, a_capability_in_a_url_is_400_and_goes_nowhere) {
  SimulatedGateway gateway;
  crypto::RootKey key = crypto::make_root_key(std::array<std::byte, 40>{}, {1'767'225'600'000});
  const std::string token = crypto::format_token(crypto::mint(key, "sample", make_ulid({1}, 1, 1)));
  for (const std::string& query :
       {"x=" + token, std::string("a=b&token=1"), std::string("ACCESS_TOKEN=x"), std::string("cap")})
    EXPECT_EQ(gateway.ask(get("/o/object?" + query)).status, 400) << query;
  EXPECT_EQ(gateway.plain.state.asked, 0);
  EXPECT_EQ(gateway.ask(get("/o/object?range=0-&x=" + std::string(100, 'a'))).status, 200);
}

// --- in another process

TEST(ForwardOutside, tells_who_asks_and_nothing_that_a_client_could_forge) {
  Outside world(at_head({.bytes = ok}));
  const Answer answer = world.gateway.ask(
      get("/o/a%20b?c=d",
          "Forwarded: for=1.2.3.4\r\nX-Forwarded-Host: evil\r\nProxy-Authorization: x\r\n"
          "Origin: http://h\r\nVia: 1.1 a\r\nX-Deadline-Ms: 999999\r\nRange: bytes=0-1\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "ok");
  const std::string seen = world.upstream.last();
  EXPECT_THAT(seen, testing::StartsWith("GET /o/a%20b?c=d HTTP/1.1\r\nHost: behind:82\r\n"));
  EXPECT_THAT(seen, HasSubstr("Range: bytes=0-1\r\n"));
  EXPECT_THAT(seen, HasSubstr(";host=\"h\";proto=http\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Forwarded-Proto: http\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Forwarded-Host: h\r\n"));
  for (const char* forged : {"1.2.3.4", "evil", "Proxy-", "Origin", "Via", "Deadline-Ms: 999999"})
    EXPECT_THAT(seen, Not(HasSubstr(forged)));
  EXPECT_THAT(seen, HasSubstr("X-Deadline-Ms: 5000\r\n"));
}

TEST(ForwardOutside, fields_of_one_hop_and_what_a_client_says_of_itself_end_here) {
  Outside world(at_head({.bytes = ok}));
  const Answer answer = world.gateway.ask(
      get("/o/a",
          "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n"
          "X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Stays: 2\r\n"));
  EXPECT_EQ(answer.status, 200);
  const std::string seen = world.upstream.last();
  for (const char* ended : {"X-Hop", "Keep-Alive", "TE: ", "Connection", "6.6.6.6"})
    EXPECT_THAT(seen, Not(HasSubstr(ended)));
  EXPECT_THAT(seen, HasSubstr("X-Stays: 2\r\n"));
}

TEST(ForwardOutside, hop_by_hop_fields_of_an_answer_end_here) {
  Outside world(at_head({.bytes = "HTTP/1.1 206 Partial\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\n"
                                  "Keep-Alive: timeout=5\r\nContent-Range: bytes 0-1/4\r\nRetry-After: 7\r\n"
                                  "Proxy-Authenticate: x\r\nContent-Length: 2\r\n\r\nok"}));
  const Answer answer = world.gateway.ask(get("/o/a"));
  EXPECT_EQ(answer.status, 206);
  EXPECT_EQ(answer.field("Content-Range"), "bytes 0-1/4");
  EXPECT_EQ(answer.field("Retry-After"), "7");
  EXPECT_EQ(answer.field("X-Hop"), std::nullopt);
  EXPECT_EQ(answer.field("Keep-Alive"), std::nullopt);
  EXPECT_EQ(answer.field("Proxy-Authenticate"), std::nullopt);
}

TEST(ForwardOutside, a_connection_is_kept_and_used_again) {
  Outside world(at_head({.bytes = ok}));
  Guest guest = world.gateway.connect();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(guest.ask(get("/o/a")).body, "ok");
  EXPECT_EQ(world.upstream.connections, 1u);
}

TEST(ForwardOutside, an_answer_that_comes_before_the_body_has_ended_is_passed_on_at_once) {
  Outside world(
      at_head({.bytes = "HTTP/1.1 401 No\r\nContent-Length: 2\r\nWWW-Authenticate: Bearer\r\n\r\nno"}));
  Guest guest = world.gateway.connect();
  guest.send("POST /o HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nsome");
  const Answer answer = guest.answer(false, Duration::seconds(1));
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.body, "no");
}

TEST(ForwardOutside, a_body_that_is_shorter_than_said_or_cut_is_no_whole_answer) {
  Outside world(
      at_head({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", .then = Reply::Then::close}));
  Guest guest = world.gateway.connect();
  guest.send(get("/o/a"));
  ASSERT_TRUE(guest.until_ended());
  EXPECT_FALSE(guest.answer().whole);
  world.upstream.set_script(
      at_head({.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
               .then = Reply::Then::reset}));
  Guest other = world.gateway.connect();
  other.send(get("/o/a"));
  ASSERT_TRUE(other.until_ended());
  EXPECT_FALSE(other.answer().whole);
}

TEST(ForwardOutside, a_head_that_is_broken_or_too_large_is_a_clean_502) {
  for (const std::string& head :
       {std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
        std::string("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), std::string("nonsense\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nX-Long: " + std::string(70000, 'a') + "\r\nContent-Length: 2\r\n\r\nok"}) {
    Outside world(at_head({.bytes = head}));
    const Answer answer = world.gateway.ask(get("/o/a"));
    EXPECT_EQ(answer.status, 502) << head.substr(0, 60);
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(world.upstream.asked.size(), 1u) << "it is not asked again";
  }
}

TEST(ForwardOutside, a_large_legal_head_passes) {
  Outside world(at_head({.bytes = "HTTP/1.1 200 OK\r\nX-Long: " + std::string(28000, 'a') +
                                  "\r\nContent-Length: 2\r\n\r\nok"}));
  const Answer answer = world.gateway.ask(get("/o/a"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("X-Long")->size(), 28000u);
}

TEST(ForwardOutside, a_long_answer_is_paid_for_and_counted_as_it_goes) {
  const std::string body(300 * 1024, 'x');
  Outside world(
      at_head({.bytes = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body)}),
      {{"quota.bytes_per_day", "1MiB"}});
  EXPECT_EQ(world.gateway.ask(get("/o/a")).body, body);
  // One for the request with its first 64 KiB, and four for the others.
  EXPECT_EQ(world.gateway.metric(R"(drr_served_units_total{tenant="other"})"), 5);
  EXPECT_EQ(world.gateway.ask(get("/o/a")).field("RateLimit-Remaining"),
            fmt::format("{}", 1024 * 1024 - body.size()));
}

TEST(ForwardOutside, a_client_that_leaves_ends_the_request) {
  Outside world(at_head({.bytes = ok, .after = Duration::seconds(4)}));
  Guest guest = world.gateway.connect();
  guest.send(get("/o/a"));
  ASSERT_TRUE(guest.until([&] { return !world.upstream.asked.empty(); }));
  guest.close();
  // The gateway closes its connection: nobody else gets this answer.
  world.gateway.world.run_for(Duration::seconds(6));
  EXPECT_EQ(world.gateway.ask(get("/o/a")).body, "ok");
  EXPECT_EQ(world.upstream.connections, 2u);
}

// --- connections to upstreams

// Begins to answer what `part` names, and does not go on.
ScriptedUpstream::Script stalling(std::string part) {
  return [part = std::move(part)](const std::string& got) -> std::optional<Reply> {
    if (got.find("\r\n\r\n") == std::string::npos) return std::nullopt;
    if (got.find(part) == std::string::npos) return Reply{.bytes = ok};
    return Reply{.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"};
  };
}
const SettingTexts many_clients{{"server.max_conns", "600"}, {"server.max_conns_per_ip", "600"}};

// Clients that were answered, as far as the upstream goes.
std::deque<Guest> stalled(Outside& world, std::string_view path, std::size_t count) {
  world.gateway.wait_until_it_serves();
  std::deque<Guest> guests;
  for (std::size_t i = 0; i < count; ++i) {
    guests.emplace_back(world.gateway.world, world.gateway.away, front_door);
    guests.back().send(get(path));
    EXPECT_TRUE(guests.back().until([&] { return guests.back().got().find("ok") != std::string::npos; },
                                    Duration::seconds(1)))
        << i;
  }
  return guests;
}

TEST(Connections, streams_keep_no_other_request_from_their_upstream) {
  Outside world(stalling("/stream"), many_clients);
  std::deque<Guest> streams = stalled(world, "/registry/stream", 300);
  const Instant before = world.gateway.world.now();
  const Answer busy = world.gateway.ask(get("/registry/stream"));
  EXPECT_EQ(busy.status, 429) << "half of max_conns";
  EXPECT_TRUE(busy.field("Retry-After").has_value());
  EXPECT_EQ(world.gateway.ask(get("/registry/head?wait=1s")).status, 429);
  EXPECT_LT(world.gateway.world.now() - before, Duration::millis(20));
  EXPECT_EQ(world.gateway.ask(get("/registry/head")).status, 200);
  EXPECT_EQ(world.gateway.ask(get("/registry/x")).status, 200);
  EXPECT_EQ(world.gateway.metric(R"(breaker_state{target="registry",state="closed"})"), 1);
  streams.back().close();
  world.gateway.world.run_for(Duration::seconds(1));
  Guest next = world.gateway.connect();
  next.send(get("/registry/stream"));
  EXPECT_TRUE(next.until([&] { return next.got().find("ok") != std::string::npos; }, Duration::seconds(1)));
  next.close();
  for (Guest& stream : streams) stream.close();
}

TEST(Connections, an_upstream_that_stalls_keeps_nobody_from_another) {
  Outside world(stalling("/o/"), many_clients);
  std::deque<Guest> readers = stalled(world, "/o/a", 300);
  EXPECT_EQ(world.gateway.ask(get("/registry/x")).status, 200);
  for (Guest& reader : readers) reader.close();
}

TEST(Forward, a_length_over_the_cap_reaches_no_upstream) {
  Outside world(at_head({.bytes = ok}));
  for (const char* token : {"", "Authorization: Bearer junk\r\n"}) {
    Guest guest = world.gateway.connect();
    guest.send(fmt::format("POST /o HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n{}\r\n", token));
    EXPECT_EQ(guest.answer().status, 413);
  }
  EXPECT_TRUE(world.upstream.asked.empty());
}

// --- tries, and the breaker

TEST(Retries, a_lost_connection_is_tried_three_times_and_then_it_is_502) {
  Outside world(at_head({.then = Reply::Then::close}));
  const Answer answer = world.gateway.ask(get("/o/a"));
  EXPECT_EQ(answer.status, 502);
  EXPECT_EQ(world.upstream.asked.size(), 3u);
  EXPECT_EQ(world.gateway.metric(R"(gateway_retries_total{target="storage"})"), 2);
  EXPECT_EQ(world.gateway.metric(R"(backoff_retries_total{op="upstream"})"), 2);
}

// The first wait is 50 ms at least.
TEST(Retries, nothing_is_sent_again_beyond_the_deadline) {
  Outside world(at_head({.then = Reply::Then::close}));
  Guest guest = world.gateway.connect();
  const Instant before = world.gateway.world.now();
  EXPECT_EQ(guest.ask(get("/o/a", "X-Deadline-Ms: 40\r\n")).status, 502);
  EXPECT_LT(world.gateway.world.now() - before, Duration::millis(40));
  EXPECT_EQ(world.upstream.asked.size(), 1u);
}

TEST(Retries, an_answer_of_any_status_is_never_asked_for_again) {
  for (const char* status : {"500 No", "502 No", "503 No", "504 No"}) {
    Outside world(at_head({.bytes = fmt::format("HTTP/1.1 {}\r\nContent-Length: 0\r\n\r\n", status)}));
    EXPECT_EQ(world.gateway.ask(get("/o/a")).status, std::atoi(status));
    EXPECT_EQ(world.upstream.asked.size(), 1u);
  }
}

TEST(Retries, nothing_is_sent_again_once_a_byte_of_an_answer_has_come) {
  Outside world(at_head({.bytes = "HTTP/1.1 20", .then = Reply::Then::close}));
  EXPECT_EQ(world.gateway.ask(get("/o/a")).status, 502);
  EXPECT_EQ(world.upstream.asked.size(), 1u);
}

TEST(Retries, a_post_is_sent_once_and_so_is_a_body_that_was_begun) {
  Outside world(at_head({.then = Reply::Then::close}));
  EXPECT_EQ(world.gateway.ask(post("/o", "")).status, 502);
  EXPECT_EQ(world.upstream.asked.size(), 1u);
  EXPECT_EQ(world.gateway.ask("PUT /o/a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody").status, 502);
  EXPECT_LE(world.upstream.asked.size(), 2u);
}

TEST(Retries, a_post_without_a_body_is_sent_once) {
  Outside world(at_head({.then = Reply::Then::close}));
  EXPECT_EQ(world.gateway.ask("POST /o HTTP/1.1\r\nHost: h\r\n\r\n").status, 502);
  EXPECT_EQ(world.upstream.asked.size(), 1u);
}

TEST(BreakerBefore, a_dead_upstream_opens_it_and_the_answer_comes_at_once) {
  Outside world(at_head({.bytes = ok}));
  world.upstream.stop_listening();
  Guest guest = world.gateway.connect();
  EXPECT_EQ(guest.ask(get("/o/a")).status, 502);
  EXPECT_EQ(guest.ask(get("/o/a")).status, 503);  // the fifth failure was among its tries
  EXPECT_EQ(world.gateway.breaker("open"), 1);
  EXPECT_EQ(world.gateway.breaker("closed"), 0);
  const Instant before = world.gateway.world.now();
  const Answer refused = guest.ask(get("/o/a"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("breaker_open"));
  EXPECT_TRUE(refused.field("Retry-After").has_value());
  EXPECT_LT(world.gateway.world.now() - before, Duration::millis(20));
}

TEST(BreakerBefore, it_closes_again_when_the_upstream_answers) {
  Outside world(at_head({.then = Reply::Then::close}));
  Guest guest = world.gateway.connect();
  while (guest.ask(get("/o/a")).status != 503) {
  }
  world.upstream.set_script(at_head({.bytes = ok}));
  guest.run_for(Duration::seconds(1));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(guest.ask(get("/o/a")).status, 200);
  EXPECT_EQ(world.gateway.breaker("closed"), 1);
}

TEST(BreakerBefore, timeouts_of_the_whole_time_count_and_shortened_ones_do_not) {
  Outside world(at_head({.bytes = ok, .after = Duration::seconds(60)}), {{"timeouts.request", "1s"}});
  Guest guest = world.gateway.connect();
  for (const char* shortened : {"X-Deadline-Ms: 100\r\n", "X-Deadline-Ms: 990\r\n"})
    for (int i = 0; i < 8; ++i) EXPECT_EQ(guest.ask(get("/o/a", shortened)).status, 504);
  EXPECT_EQ(world.gateway.breaker("closed"), 1);
  EXPECT_EQ(world.gateway.metric(R"(io_timeouts_total{op="rpc"})"), 16);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(guest.ask(get("/o/a")).status, 504);
  EXPECT_EQ(guest.ask(get("/o/a")).status, 503);
  EXPECT_EQ(world.gateway.breaker("open"), 1);
}

TEST(BreakerBefore, answers_with_errors_and_clients_that_leave_do_not_count) {
  Outside world(at_head({.bytes = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"}));
  for (int i = 0; i < 30; ++i) EXPECT_EQ(world.gateway.ask(get("/o/a")).status, 503);
  world.upstream.set_script(at_head({.bytes = ok, .after = Duration::seconds(2)}));
  for (int i = 0; i < 10; ++i) {
    Guest guest = world.gateway.connect();
    guest.send(get("/o/a"));
    guest.run_for(Duration::millis(50));
    guest.close();
    world.gateway.world.run_for(Duration::millis(50));
  }
  EXPECT_EQ(world.gateway.breaker("closed"), 1);
}

// The upstream needs most of the time of a request. Who waited for a turn has too little left.
TEST(BreakerBefore, time_that_was_spent_in_the_queue_is_not_the_upstreams) {
  Outside world(at_head({.bytes = ok, .after = Duration::millis(900)}),
                {{"timeouts.request", "1s"}, {"pools.workers", "1"}, {"pools.worker_slots", "1"}});
  for (int i = 0; i < 15; ++i) {
    Guest first = world.gateway.connect(), second = world.gateway.connect();
    first.send(get("/o/a"));
    first.run_for(Duration::millis(10));
    second.send(get("/o/a"));
    ASSERT_EQ(first.answer().status, 200);
    ASSERT_EQ(second.answer().status, 504);
  }
  EXPECT_EQ(world.gateway.breaker("closed"), 1);
  EXPECT_EQ(world.gateway.metric(R"(gateway_upstream_failures_total{target="storage"})"), 0);
}

TEST(BreakerBefore, a_body_that_came_late_leaves_the_upstream_too_little_time) {
  Outside world(at_body(4, {.bytes = ok, .after = Duration::seconds(60)}), {{"timeouts.request", "1s"}});
  Guest guest = world.gateway.connect();
  for (int i = 0; i < 8; ++i) {
    guest.send("POST /o HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo");
    guest.run_for(Duration::millis(900));
    guest.send("dy");
    ASSERT_EQ(guest.answer().status, 504);
  }
  EXPECT_EQ(world.gateway.breaker("closed"), 1);
}

// UW-1: nobody but a change that is let in finds out that the upstream is well again.
TEST(BreakerBefore, changes_are_let_in_again_after_its_cooldown) {
  Outside world(at_head({.then = Reply::Then::close}), {{"breaker.cooldown", "5s"}});
  Guest guest = world.gateway.connect();
  for (const char* path : {"/o/a", "/registry/x"})
    while (guest.ask(get(path)).status != 503) {
    }
  guest.run_for(Duration::seconds(2));
  EXPECT_THAT(guest.ask(post("/o", "new")).body, HasSubstr("degraded"));
  EXPECT_EQ(world.gateway.metric("gateway_degraded"), 1);
  world.upstream.set_script(at_head({.bytes = ok}));
  guest.run_for(Duration::seconds(15));
  EXPECT_EQ(world.gateway.metric("gateway_degraded"), 0);
  EXPECT_EQ(guest.ask(post("/o", "new")).status, 200);
}

// A gateway whose breaker before the service is half open.
void open_until_half(Outside& world, const std::string& path) {
  world.upstream.set_script(at_head({.then = Reply::Then::close}));
  Guest guest = world.gateway.connect();
  while (guest.ask(get(path)).status != 503) {
  }
  guest.run_for(Duration::seconds(1));
}

TEST(BreakerBefore, long_polls_do_not_keep_it_half_open) {
  Outside world(at_head({.bytes = ok}));
  open_until_half(world, "/registry/x");
  world.upstream.set_script([](const std::string& got) -> std::optional<Reply> {
    if (got.find("\r\n\r\n") == std::string::npos) return std::nullopt;
    const bool waits = got.find("wait=") != std::string::npos;
    return Reply{.bytes = ok, .after = waits ? Duration::seconds(20) : Duration()};
  });
  std::deque<Guest> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.emplace_back(world.gateway.world, world.gateway.away, front_door);
    waiting.back().send(get("/registry/head?wait=30s"));
  }
  ASSERT_TRUE(waiting.back().until([&] { return world.upstream.last().find("wait=") != std::string::npos; }));
  Guest guest = world.gateway.connect();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guest.ask(get("/registry/x")).status, 200);
  EXPECT_EQ(world.gateway.metric(R"(breaker_state{target="registry",state="closed"})"), 1);
  for (Guest& one : waiting) EXPECT_EQ(one.answer(false, Duration::seconds(30)).body, "ok");
}

// --- objects of an upstream that is not believed

// A storage that serves one object and its proofs, and may be made to lie.
struct Store {
  std::shared_ptr<const crypto::SampleObject> sample;
  std::string object;
  std::size_t lie_at = ~std::size_t{0};  // this byte is another one
  bool lie_in_proof = false;
  std::string address() const { return format_address(crypto::hash_object(as_bytes(object))); }
  std::string bytes() const {
    std::string bytes = object;
    if (lie_at < bytes.size()) bytes[lie_at] = static_cast<char>(bytes[lie_at] ^ 1);
    return bytes;
  }
  static std::pair<std::size_t, std::size_t> range_of(const std::string& text, std::size_t at,
                                                      std::size_t size) {
    const std::size_t first = std::stoul(text.substr(at)), dash = text.find('-', at);
    const bool open = dash + 1 >= text.size() || !isdigit(text[dash + 1]);
    return {first, open ? size - 1 : std::min(size - 1, std::stoul(text.substr(dash + 1)))};
  }
  std::string proof(std::pair<std::size_t, std::size_t> range) const {
    std::string text(as_text(sample->prove(range.first, range.second)));
    if (lie_in_proof) text.back() = static_cast<char>(text.back() ^ 1);
    return text;
  }
  Reply operator()(const std::string& head) const {
    if (const std::size_t at = head.find("/proof?range="); at != std::string::npos) {
      const auto range = range_of(head, at + 13, object.size());
      if (range.first >= object.size()) return {.bytes = "HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n"};
      const std::string text = proof(range);
      return {.bytes = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", text.size(), text)};
    }
    if (const std::size_t at = head.find("Range: bytes="); at != std::string::npos) {
      const auto [first, last] = range_of(head, at + 13, object.size());
      return {.bytes = fmt::format("HTTP/1.1 206 Part\r\nContent-Range: bytes {}-{}/{}\r\nETag: \"x\"\r\n"
                                   "Content-Length: {}\r\n\r\n{}",
                                   first, last, object.size(), last + 1 - first,
                                   bytes().substr(first, last + 1 - first))};
    }
    return {.bytes = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", object.size(), bytes())};
  }
};
ScriptedUpstream::Script serving(const Store& store) {
  return [store](const std::string& got) -> std::optional<Reply> {
    if (got.find("\r\n\r\n") == std::string::npos) return std::nullopt;
    return store(got);
  };
}
Store object_of(std::size_t size) {
  Store store;
  store.sample = std::make_shared<crypto::SampleObject>(size, 7);
  store.object = as_text(store.sample->bytes);
  return store;
}
double mismatches(Outside& world) {
  return world.gateway.metric(R"(gateway_mismatches_total{target="storage"})");
}

TEST(Verify, whole_objects_of_every_size_pass) {
  for (const std::size_t size : {0u, 1u, 1024u, 65535u, 65536u, 65537u, 131072u, 300000u}) {
    const Store store = object_of(size);
    Outside world(serving(store));
    const Answer answer = world.gateway.ask(get("/o/" + store.address()));
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.whole && answer.body == store.object) << size;
    EXPECT_EQ(mismatches(world), 0);
  }
}

// GV-1
TEST(Verify, a_wrong_byte_anywhere_never_has_a_right_end) {
  for (const std::size_t size : {1u, 1024u, 65536u, 65537u, 300000u})
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      Store store = object_of(size);
      store.lie_at = at;
      Outside world(serving(store));
      Guest guest = world.gateway.connect();
      guest.send(get("/o/" + store.address()));
      ASSERT_TRUE(guest.until_ended());
      EXPECT_FALSE(guest.answer().whole) << size << " " << at;
      EXPECT_EQ(mismatches(world), 1);
      EXPECT_EQ(world.gateway.breaker("closed"), 1);  // one is not in the row of failures
    }
}

// GV-3
TEST(Verify, a_wrong_object_is_counted_once) {
  Store store = object_of(1024);
  store.lie_at = 0;
  Outside world(serving(store));
  const auto ask_some = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Guest guest = world.gateway.connect();
      guest.send(get("/o/" + store.address()));
      ASSERT_TRUE(guest.until_ended());
    }
  };
  ask_some(19);
  EXPECT_EQ(world.gateway.breaker("closed"), 1) << "of twenty requests half may fail, and none in a row did";
  ask_some(1);
  EXPECT_EQ(world.gateway.breaker("open"), 1);
  EXPECT_EQ(mismatches(world), 20);
}

// GV-3
TEST(Verify, a_slow_object_does_not_keep_the_breaker_half_open) {
  const Store store = object_of(200'000);
  Outside world(serving(store));
  open_until_half(world, "/o/a");
  world.upstream.set_script([store](const std::string& got) -> std::optional<Reply> {
    if (got.find("\r\n\r\n") == std::string::npos) return std::nullopt;
    if (got.find(store.address()) == std::string::npos) return Reply{.bytes = ok};
    const std::string whole = store(got).bytes;
    return Reply{.bytes = whole.substr(0, 1000), .later = whole.substr(1000), .pause = Duration::seconds(4)};
  });
  std::deque<Guest> reading;
  for (int i = 0; i < 5; ++i) {
    reading.emplace_back(world.gateway.world, world.gateway.away, front_door);
    reading.back().send(get("/o/" + store.address()));
  }
  reading.back().run_for(Duration::seconds(1));
  Guest guest = world.gateway.connect();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guest.ask(get("/o/a")).status, 200);
  EXPECT_EQ(world.gateway.breaker("closed"), 1);
  for (Guest& one : reading) EXPECT_TRUE(one.answer(false, Duration::seconds(10)).whole);
}

TEST(Verify, an_upstream_of_wrong_bytes_is_left_alone_after_a_while) {
  Store store = object_of(1000);
  store.lie_at = 7;
  Outside world(serving(store));
  for (int i = 0; i < 20 && world.gateway.breaker("open") == 0; ++i)
    (void)world.gateway.connect().ask(get("/o/" + store.address()));
  EXPECT_EQ(world.gateway.breaker("open"), 1) << "enough ended in the window, and half of it was wrong";
  EXPECT_EQ(world.gateway.ask(get("/o/" + store.address())).status, 503);
}

TEST(Verify, an_empty_body_is_only_the_empty_object) {
  Outside world(at_head({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}));
  EXPECT_EQ(world.gateway.ask(get("/o/" + object_of(5).address())).status, 502);
  EXPECT_EQ(world.gateway.ask(get("/o/" + object_of(0).address())).status, 200);
}

TEST(Verify, a_range_is_fetched_in_groups_and_trimmed) {
  const Store store = object_of(300000);
  Outside world(serving(store));
  for (const auto& [asked, first, last] : {std::tuple("0-0", 0u, 0u),
                                           {"65535-65536", 65535u, 65536u},
                                           {"70000-140000", 70000u, 140000u},
                                           {"299999-", 299999u, 299999u},
                                           {"10-", 10u, 299999u},
                                           {"200000-900000", 200000u, 299999u}}) {
    const Answer answer =
        world.gateway.ask(get("/o/" + store.address(), fmt::format("Range: bytes={}\r\n", asked)));
    EXPECT_EQ(answer.status, 206) << asked;
    EXPECT_EQ(answer.field("Content-Range"), fmt::format("bytes {}-{}/300000", first, last));
    EXPECT_TRUE(answer.whole && answer.body == store.object.substr(first, last + 1 - first)) << asked;
  }
  EXPECT_THAT(world.upstream.last(), HasSubstr("Range: bytes=196608-299999\r\n"));
}

TEST(Verify, a_range_with_a_wrong_byte_in_its_groups_is_cut_off) {
  for (const std::size_t at : {65536u, 70000u, 131071u}) {
    Store store = object_of(300000);
    store.lie_at = at;
    Outside world(serving(store));
    Guest guest = world.gateway.connect();
    guest.send(get("/o/" + store.address(), "Range: bytes=80000-80010\r\n"));
    ASSERT_TRUE(guest.until_ended());
    EXPECT_FALSE(guest.answer().whole);
    EXPECT_EQ(mismatches(world), 1);
    EXPECT_EQ(world.gateway.ask(get("/o/" + store.address(), "Range: bytes=0-10\r\n")).status, 206);
  }
}

TEST(Verify, a_wrong_proof_or_another_range_is_502) {
  Store store = object_of(300000);
  store.lie_in_proof = true;
  Outside world(serving(store));
  EXPECT_EQ(world.gateway.ask(get("/o/" + store.address(), "Range: bytes=0-10\r\n")).status, 502);
  EXPECT_EQ(mismatches(world), 1);
  store.lie_in_proof = false;
  world.upstream.set_script([store](const std::string& got) -> std::optional<Reply> {
    if (got.find("/proof") != std::string::npos) return store(got);
    return Reply{.bytes =
                     "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-1/300000\r\nContent-Length: 2\r\n\r\nok"};
  });
  EXPECT_EQ(world.gateway.ask(get("/o/" + store.address(), "Range: bytes=0-10\r\n")).status, 502);
}

TEST(Verify, a_refused_proof_is_what_it_is) {
  const Store store = object_of(300000);
  for (const char* refusal : {"429 Busy", "503 Degraded", "507 Full"}) {
    Outside world([&](const std::string& got) -> std::optional<Reply> {
      if (got.find("/proof") == std::string::npos) return serving(store)(got);
      if (got.find("\r\n\r\n") == std::string::npos) return std::nullopt;
      return Reply{.bytes =
                       fmt::format("HTTP/1.1 {}\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nwhy", refusal)};
    });
    const Answer answer = world.gateway.ask(get("/o/" + store.address(), "Range: bytes=0-10\r\n"));
    EXPECT_EQ(answer.status, std::atoi(refusal));
    EXPECT_EQ(answer.field("Retry-After"), "7");
    EXPECT_EQ(answer.body, "why");
    EXPECT_EQ(mismatches(world), 0);
    EXPECT_EQ(world.upstream.asked.size(), 1u);
  }
}

TEST(Verify, without_a_proof_the_whole_object_is_the_answer) {
  const Store store = object_of(300000);
  for (const char* refusal : {"403 No", "404 No", "501 No"}) {
    Outside world([&](const std::string& got) -> std::optional<Reply> {
      if (got.find("/proof") == std::string::npos) return serving(store)(got);
      return at_head({.bytes = fmt::format("HTTP/1.1 {}\r\nContent-Length: 0\r\n\r\n", refusal)})(got);
    });
    const Answer answer = world.gateway.ask(get("/o/" + store.address(), "Range: bytes=0-10\r\n"));
    EXPECT_EQ(answer.status, 200) << refusal;
    EXPECT_TRUE(answer.whole && answer.body == store.object);
  }
}

// GV-4
TEST(Verify, a_range_of_too_many_groups_is_answered_with_the_whole) {
  const std::uint64_t size = (std::uint64_t{RangeProof::groups_max} + 1) * crypto::group_size;
  std::string claim(8, '\0');
  for (unsigned i = 0; i < 8; ++i) claim[i] = static_cast<char>(size >> (8 * i) & 0xff);
  Outside world([&](const std::string& got) -> std::optional<Reply> {
    if (got.find("/proof") == std::string::npos)
      return at_head({.bytes = "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno"})(got);
    return at_head({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + claim})(got);
  });
  const std::string path = "/o/" + object_of(5).address();
  EXPECT_EQ(world.gateway.ask(get(path, "Range: bytes=0-\r\n")).body, "no");
  EXPECT_THAT(world.upstream.last(), Not(HasSubstr("Range:")));
  EXPECT_EQ(mismatches(world), 0);
  EXPECT_EQ(world.gateway.ask(get(path, "Range: bytes=65536-\r\n")).status, 502)
      << "a proof of so many groups would be read: this one is none";
}

// GV-4
TEST(Verify, the_memory_of_a_proof_is_the_slabs) {
  Slab slab;
  {
    const RangeProof narrow(slab, Address{}, {70'000, 80'000});
    EXPECT_EQ(slab.bytes_in_use(), Slab::small);
    const RangeProof wide(slab, Address{}, {0, crypto::object_size_max - 1});
    EXPECT_EQ(slab.bytes_in_use(), Slab::small + Slab::large);
  }
  EXPECT_EQ(slab.bytes_in_use(), 0u);
}

TEST(Verify, blanks_in_a_range_change_nothing) {
  const Store store = object_of(100000);
  Outside world(serving(store));
  for (const char* range : {" 5-10", "\t5-10 ", ",5-10"}) {
    const Answer answer =
        world.gateway.ask(get("/o/" + store.address(), fmt::format("Range: bytes={}\r\n", range)));
    EXPECT_EQ(answer.status, 206) << range;
    EXPECT_EQ(answer.body, store.object.substr(5, 6));
  }
}

TEST(Verify, several_ranges_and_the_last_bytes_are_answered_with_the_whole) {
  const Store store = object_of(100000);
  Outside world(serving(store));
  for (const char* range : {"0-1,5-6", "-10", " -10", ",-10", "nonsense"}) {
    const Answer answer =
        world.gateway.ask(get("/o/" + store.address(), fmt::format("Range: bytes={}\r\n", range)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.body == store.object);
  }
}

TEST(Verify, no_other_spelling_of_the_path_and_no_other_status_goes_unverified) {
  Store store = object_of(10);
  store.lie_at = 5;
  Outside world(serving(store));
  Guest guest = world.gateway.connect();
  guest.send(get("/%6f/" + store.address()));
  ASSERT_TRUE(guest.until_ended());
  EXPECT_FALSE(guest.answer().whole);
  world.upstream.set_script(at_head({.bytes = "HTTP/1.1 203 Other\r\nContent-Length: 2\r\n\r\nno"}));
  EXPECT_EQ(world.gateway.ask(get("/o/" + store.address())).status, 502);
}

TEST(Verify, a_range_beyond_the_end_is_416) {
  const Store store = object_of(100);
  for (const char* of_proof : {"400 Bad", "416 No"}) {
    Outside world([&](const std::string& got) -> std::optional<Reply> {
      if (got.find("/proof") != std::string::npos)
        return Reply{.bytes = fmt::format("HTTP/1.1 {}\r\nContent-Length: 0\r\n\r\n", of_proof)};
      if (got.find("Range: bytes=100-") != std::string::npos)
        return Reply{.bytes = "HTTP/1.1 416 No\r\nContent-Range: bytes */100\r\nContent-Length: 0\r\n\r\n"};
      return store(got);
    });
    const Answer answer = world.gateway.ask(get("/o/" + store.address(), "Range: bytes=100-\r\n"));
    EXPECT_EQ(answer.status, 416) << of_proof;
    EXPECT_EQ(answer.field("Content-Range"), "bytes */100");
  }
}

TEST(Verify, a_range_of_an_object_that_comes_after_its_proof_was_asked_for_is_the_whole) {
  const Store store = object_of(100);
  Outside world([store](const std::string& got) -> std::optional<Reply> {
    if (got.find("/proof") != std::string::npos)
      return Reply{.bytes = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"};
    return store(got);
  });
  const Answer answer = world.gateway.ask(get("/o/" + store.address(), "Range: bytes=0-9\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, store.object);
}

TEST(Verify, what_is_no_object_passes_as_it_is) {
  Outside world(at_head({.bytes = "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno"}));
  const Answer answer = world.gateway.ask(get("/o/" + object_of(5).address(), "Range: bytes=0-1\r\n"));
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, "no");
}

TEST(Verify, it_can_be_turned_off) {
  Store store = object_of(10);
  store.lie_at = 5;
  Outside world(serving(store), {{"proxy.verify", "false"}});
  EXPECT_EQ(world.gateway.ask(get("/o/" + store.address())).body, store.bytes());
}

}  // namespace
}  // namespace cairn::gateway
