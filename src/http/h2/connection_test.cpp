#include "http/h2/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/h2/simulated_desk.h"

namespace cairn::http::h2 {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using Connected = H2Test;

TEST_F(Connected, a_request_is_answered_with_what_every_answer_carries) {
  H2Guest guest = connect();
  const Reply& reply = guest.wait(guest.get("/x"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "/x");
  EXPECT_TRUE(reply.ended);
  EXPECT_EQ(reply.reset, std::nullopt);
  EXPECT_EQ(reply.field("content-length"), "2");
  EXPECT_EQ(reply.field("content-type"), "text/plain");
  EXPECT_EQ(reply.field("date"), "Thu, 01 Jan 2026 00:00:00 GMT");
  EXPECT_EQ(reply.field("x-corr-id"), "corr-0001");
  EXPECT_EQ(reply.field("x-content-type-options"), "nosniff");
}

TEST_F(Connected, many_streams_at_once_are_all_answered) {
  H2Guest guest = connect();
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(guest.get("/n" + std::to_string(i)));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(guest.wait(ids[static_cast<std::size_t>(i)]).body, "/n" + std::to_string(i));
  EXPECT_EQ(desk.finished_count(true), 100u);
}

TEST_F(Connected, an_idle_connection_holds_no_buffer) {
  H2Guest guest = connect();
  guest.wait(guest.get("/x"));
  guest.wait(guest.ask("POST", "/read", std::string(3000, 'x')));
  guest.run_for(Duration::millis(10));
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_EQ(machine.slab.outstanding(), 0u);
}

TEST_F(Connected, the_preface_and_a_request_may_come_byte_by_byte) {
  H2Guest guest = connect_raw();
  for (const char byte : preface() + get_frame(1, "/split")) {
    guest.send({&byte, 1});
    guest.run_for(Duration::micros(200));
  }
  EXPECT_EQ(guest.wait(1).body, "/split");
}

TEST_F(Connected, every_kind_of_answer_arrives_through_a_socket_that_takes_a_little_at_a_time) {
  world.network().faults.split_write = world.network().faults.split_delivery = 900'000;
  world.network().faults.send_buffer = world.network().faults.window = 1500;
  desk.big.assign(200'000, 'b');
  desk.parts = {std::string(70, 'p'), std::string(50'000, 'q'), "r"};
  desk.sized = 50'071;
  const std::string all = desk.parts[0] + desk.parts[1] + desk.parts[2];
  H2Guest guest = connect();
  const auto big = guest.get("/big"), text = guest.get("/text"), stream = guest.get("/stream"),
             sized = guest.get("/sized"), none = guest.get("/none"), head = guest.ask("HEAD", "/big");
  EXPECT_EQ(guest.wait(big).body, desk.big);
  EXPECT_EQ(guest.wait(text).body, desk.big);
  EXPECT_EQ(guest.wait(stream).body, all);
  EXPECT_EQ(guest.reply(stream).field("content-length"), "");
  EXPECT_EQ(guest.wait(sized).body, all);
  EXPECT_EQ(guest.reply(sized).field("content-length"), "50071");
  EXPECT_EQ(guest.wait(none).status, 204);
  EXPECT_EQ(guest.reply(none).field("content-length"), "");
  EXPECT_EQ(guest.wait(head).field("content-length"), "200000");
  EXPECT_EQ(guest.reply(head).body, "");
  EXPECT_EQ(desk.finished_count(true), 6u);
}

TEST_F(Connected, a_file_arrives_whole_wherever_its_bytes_are) {
  std::string bytes;
  for (int i = 0; bytes.size() < 300'000; ++i) bytes += std::to_string(i);
  host.disk().put("/f", bytes);
  desk.file = open_file("/f");
  H2Guest guest = connect();
  for (const auto& [offset, count] : {std::pair(0u, 300'000u), std::pair(7u, 100'000u), std::pair(5u, 0u)}) {
    desk.file_offset = offset;
    desk.file_count = count;
    const auto id = guest.get("/file");
    EXPECT_EQ(guest.wait(id).body, bytes.substr(offset, count));
    EXPECT_EQ(guest.reply(id).field("content-length"), std::to_string(count));
  }
  desk.file_count = 400'000;  // it was longer when its size was asked
  EXPECT_EQ(guest.wait(guest.get("/file")).reset, NGHTTP2_INTERNAL_ERROR);
  desk.file.reset();
}

TEST_F(Connected, a_source_that_fails_resets_its_stream_and_no_other) {
  desk.parts = {"part"};
  H2Guest guest = connect();
  for (const Parts::End end : {Parts::End::error, Parts::End::exception}) {
    desk.parts_end = end;
    const auto bad = guest.get("/stream"), good = guest.get("/x");
    EXPECT_EQ(guest.wait(bad).reset, NGHTTP2_INTERNAL_ERROR);
    EXPECT_FALSE(guest.reply(bad).ended);
    EXPECT_EQ(guest.wait(good).body, "/x");
  }
  desk.parts_end = Parts::End::normal;
  for (const std::uint64_t size : {3u, 5u}) {
    desk.sized = size;
    EXPECT_EQ(guest.wait(guest.get("/sized")).reset, NGHTTP2_INTERNAL_ERROR) << size;
  }
}

TEST_F(Connected, a_handler_that_throws_costs_its_stream_a_500_and_no_other) {
  H2Guest guest = connect();
  const auto first = guest.get("/throw-at-once"), second = guest.get("/throw"), third = guest.get("/x");
  EXPECT_EQ(guest.wait(first).status, 500);
  EXPECT_EQ(guest.wait(second).status, 500);
  EXPECT_EQ(guest.wait(third).status, 200);
}

TEST_F(Connected, an_answer_with_a_spoiled_field_is_not_sent) {
  H2Guest guest = connect();
  const Reply& reply = guest.wait(guest.get("/spoiled"));
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.field("x-injected"), "");
}

TEST_F(Connected, an_abandoned_answer_is_a_reset) {
  H2Guest guest = connect();
  EXPECT_EQ(guest.wait(guest.get("/abandoned")).reset, NGHTTP2_CANCEL);
}

// --- bodies

TEST_F(Connected, a_large_body_is_pulled_through_its_window) {
  std::string body;
  for (int i = 0; body.size() < 500'000; ++i) body += std::to_string(i);
  H2Guest guest = connect();
  EXPECT_EQ(guest.wait(guest.ask("POST", "/read", body)).body, body);
  EXPECT_EQ(
      guest.wait(guest.ask("POST", "/read", body, true, {{"content-length", std::to_string(body.size())}}))
          .body,
      body);
}

TEST_F(Connected, a_body_that_is_read_before_the_peer_knows_the_settings_keeps_its_window) {
  H2Guest guest = connect_raw();
  guest.send(preface() + frame(NGHTTP2_HEADERS, end_headers, 1,
                               field(":method", "POST") + field(":scheme", "https") +
                                   field(":authority", "h") + field(":path", "/read")));
  guest.run_for(Duration::millis(100));
  guest.send(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
  guest.run_for(Duration::millis(100));
  // More than the window that the settings give to a stream, at once.
  guest.send(frame(NGHTTP2_DATA, 0, 1, std::string(10'000, 'x')) + frame(NGHTTP2_DATA, end_stream, 1, "y"));
  EXPECT_EQ(guest.wait(1).body.size(), 10'001u);
  EXPECT_EQ(guest.goaway, std::nullopt);
}

TEST_F(Connected, what_is_not_pulled_is_not_acknowledged) {
  H2Guest guest = connect();
  guest.wait(guest.get("/x"));  // the settings are known
  const auto id = guest.ask("POST", "/read-late", std::string(300'000, 'x'));
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(guest.window_given, 0u);
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(id).body.size(), 300'000u);
}

TEST_F(Connected, bodies_that_nobody_reads_do_not_stop_one_that_is_read) {
  H2Guest guest = connect();
  guest.wait(guest.get("/x"));
  for (int i = 0; i < 30; ++i) guest.ask("POST", "/read-late", std::string(100'000, 'x'));
  const std::string body(200'000, 'y');
  EXPECT_EQ(guest.wait(guest.ask("POST", "/read", body), Duration::seconds(4)).body, body);
  on_host([&] { desk.open(); });
  for (int i = 0; i < 30; ++i) EXPECT_EQ(guest.wait(3 + 2 * i).body.size(), 100'000u);
}

TEST_F(Connected, a_client_that_expects_continue_is_told_to_at_the_first_pull) {
  H2Guest guest = connect();
  const auto id = guest.ask("POST", "/read-late", {}, false, {{"expect", "100-continue"}});
  guest.run_for(Duration::millis(100));
  EXPECT_THAT(guest.reply(id).interim, ElementsAre());
  on_host([&] { desk.open(); });
  ASSERT_TRUE(guest.until([&] { return !guest.reply(id).interim.empty(); }));
  guest.send_data(id, "body", true);
  EXPECT_EQ(guest.wait(id).body, "body");
  EXPECT_THAT(guest.reply(id).interim, ElementsAre(100));
}

TEST_F(Connected, an_early_answer_is_whole_and_the_rest_of_the_body_is_thrown_away) {
  H2Guest guest = connect();
  for (const std::size_t size : {100'000u, 1'000'000u}) {
    const auto id = guest.ask("POST", "/x", std::string(size, 'x'));
    EXPECT_EQ(guest.wait(id).body, "/x");
    EXPECT_FALSE(guest.until([&] { return guest.reply(id).reset.has_value(); }, Duration::seconds(4)))
        << "all of it was taken";
  }
  EXPECT_EQ(guest.wait(guest.ask("POST", "/read", std::string(100'000, 'y'))).body.size(), 100'000u)
      << "no window is lost";
}

TEST_F(Connected, the_rest_of_a_body_that_was_begun_is_thrown_away_too) {
  H2Guest guest = connect();
  const auto id =
      guest.ask("POST", "/taste", std::string(1'000'000, 'x'), true, {{"content-length", "1000000"}});
  EXPECT_EQ(guest.wait(id).body, "/taste");
  EXPECT_FALSE(guest.until([&] { return guest.reply(id).reset.has_value(); }, Duration::seconds(4)));
  EXPECT_EQ(guest.wait(guest.get("/x")).status, 200);
}

TEST_F(Connected, the_rest_of_a_body_is_declined_when_it_is_too_long_or_too_late) {
  H2Guest guest = connect();
  const auto longer = guest.ask("POST", "/x", std::string(5'000'000, 'x')),
             later = guest.ask("POST", "/x", "part", false);
  EXPECT_EQ(guest.wait(longer).body, "/x");
  EXPECT_EQ(guest.wait(later).body, "/x");
  EXPECT_TRUE(guest.reply(longer).ended);
  ASSERT_TRUE(guest.until([&] { return guest.reply(longer).reset && guest.reply(later).reset; },
                          Duration::seconds(4)));
  EXPECT_EQ(guest.reply(longer).reset, NGHTTP2_NO_ERROR);
  EXPECT_EQ(guest.reply(later).reset, NGHTTP2_NO_ERROR);
  EXPECT_EQ(guest.goaway, std::nullopt);
}

TEST_F(Connected, trailers_are_read_and_ignored) {
  H2Guest guest = connect_raw();
  guest.send(preface() +
             frame(NGHTTP2_HEADERS, end_headers, 1,
                   field(":method", "POST") + field(":scheme", "https") + field(":authority", "h") +
                       field(":path", "/read")) +
             frame(NGHTTP2_DATA, 0, 1, "body") +
             frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, field("x-trailer", "t")));
  EXPECT_EQ(guest.wait(1).body, "body");
}

TEST_F(Connected, a_body_that_does_not_fit_its_length_is_never_taken_for_whole) {
  for (const std::string_view body : {"abc", "abcdef"}) {
    H2Guest guest = connect_raw();
    guest.send(preface() +
               frame(NGHTTP2_HEADERS, end_headers, 1,
                     field(":method", "POST") + field(":scheme", "https") + field(":authority", "h") +
                         field(":path", "/read") + field("content-length", "5")) +
               frame(NGHTTP2_DATA, end_stream, 1, body));
    guest.wait(1);
    EXPECT_EQ(guest.reply(1).reset, NGHTTP2_PROTOCOL_ERROR);
    EXPECT_EQ(guest.reply(1).status, 0);
  }
  EXPECT_EQ(desk.finished_count(true), 0u);
}

TEST_F(Connected, a_body_that_stalls_is_408) {
  H2Guest guest = connect();
  const auto id = guest.ask("POST", "/read", "some", false);
  EXPECT_EQ(guest.wait(id, Duration::millis(5100)).status, 408);
  EXPECT_EQ(desk.slow_reads, 1);
}

// --- the same rules as for HTTP/1.1

TEST_F(Connected, a_body_that_may_not_be_sent_is_not_blamed_for_it) {
  H2Guest guest = connect();
  // Before the peer knows the settings, one body may use up the window of all.
  const std::string first(200'000, 'x'), second(100'000, 'y');
  const auto stalled = guest.ask("POST", "/sip", first), starved = guest.ask("POST", "/read", second);
  guest.run_for(Duration::seconds(20));
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(starved).body, second);
  EXPECT_EQ(guest.wait(stalled).status, 200);
  EXPECT_EQ(desk.slow_reads, 0);
}

TEST_F(Connected, cookie_crumbs_are_one_cookie) {
  H2Guest guest = connect();
  guest.wait(guest.get("/x", {{"cookie", "a=1"}, {"accept", "*/*"}, {"cookie", "b=2"}}));
  EXPECT_THAT(desk.cookies, ElementsAre("a=1; b=2"));
}

TEST_F(Connected, a_head_that_is_refused_ends_its_stream_and_not_the_connection) {
  H2Guest guest = connect();
  EXPECT_EQ(guest.wait(guest.ask("BREW", "/x")).status, 501);
  EXPECT_EQ(guest.wait(guest.get("/" + std::string(9000, 'a'))).status, 414);
  EXPECT_EQ(guest.wait(guest.get("/x", {{"host", "other"}})).status, 400);
  H2Guest::Fields many;
  for (int i = 0; i < 101; ++i) many.emplace_back("x-n" + std::to_string(i), "v");
  EXPECT_EQ(guest.wait(guest.get("/x", many)).status, 431);
  EXPECT_EQ(guest.wait(guest.get("/x", {{"x-long", std::string(33'000, 'l')}})).status, 431);
  EXPECT_EQ(guest.wait(guest.get("/x")).status, 200);
  EXPECT_EQ(guest.goaway, std::nullopt);
}

TEST_F(Connected, smuggled_fields_never_reach_the_answerer) {
  const std::string good = get_fields("/x");
  const std::string heads[] = {
      good + field("x-a", "b\r\nx-smuggled: 1"),
      good + field("x-a\r\nx-smuggled", "1"),
      good + field("x-a", std::string_view("b\0c", 3)),
      good + field("X-Upper", "1"),
      good + field("connection", "close"),
      good + field("transfer-encoding", "chunked"),
      good + field("upgrade", "h2c"),
      good + field("te", "gzip"),
      good + field("host", "other"),
      good + field("content-length", "7"),
      good + field(":path", "/y"),
      good + field("x-a", "1") + field(":late", "1"),
      get_fields("no-slash"),
      get_fields("/a b HTTP/1.1\r\nX: y"),
      get_fields("http://h/x"),
      get_fields(""),
      get_fields("*"),
      field(":method", "GET") + field(":scheme", "https") + field(":path", "/x"),
      field(":method", "GET") + field(":scheme", "https") + field(":authority", "h"),
      field(":method", "GET") + field(":path", "/x") + field(":authority", "h"),
      field(":scheme", "https") + field(":path", "/x") + field(":authority", "h"),
      field(":method", "GE T") + field(":scheme", "https") + field(":path", "/x") + field(":authority", "h"),
      field(":method", "GET") + field(":scheme", "https") + field(":path", "/x") + field(":authority", "u@h"),
      field(":method", "CONNECT") + field(":authority", "h"),
      good + field(":protocol", "websocket"),
  };
  for (const std::string& head : heads) {
    H2Guest guest = connect_raw();
    guest.send(preface() + frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, head));
    const Reply& reply = guest.wait(1);
    EXPECT_TRUE(reply.status == 400 || (reply.status == 0 && reply.reset)) << head << reply.status;
  }
  EXPECT_THAT(desk.methods, ElementsAre());
  EXPECT_THAT(desk.refused, Each(ErrorCode::malformed));
}

// --- running, waiting, ending

TEST_F(Connected, no_more_handlers_run_than_the_options_say_and_the_rest_wait_in_order) {
  H2Guest guest = connect();
  for (int i = 0; i < 100; ++i) guest.get("/wait?" + std::to_string(i));
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(desk.running, 32);
  EXPECT_EQ(desk.begun, 32);
  on_host([&] { desk.open(); });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(guest.wait(1 + 2 * i).status, 200);
  EXPECT_LE(desk.most, 32);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(desk.order[i], std::to_string(i));
}

TEST_F(Connected, a_reset_stream_stops_its_handler_and_is_told_so_once) {
  H2Guest guest = connect();
  const auto id = guest.get("/wait"), other = guest.get("/wait");
  guest.run_for(Duration::millis(10));
  guest.reset(id);
  guest.run_for(Duration::millis(10));
  EXPECT_THAT(desk.stopped, ElementsAre(StopReason::client_gone));
  EXPECT_THAT(desk.complete, ElementsAre(false));
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(other).status, 200);
}

TEST_F(Connected, a_stream_that_is_reset_before_its_turn_is_never_begun) {
  H2Guest guest = connect();
  for (int i = 0; i < 33; ++i) guest.get("/wait?" + std::to_string(i));
  guest.run_for(Duration::millis(10));
  guest.reset(65);
  guest.run_for(Duration::millis(10));
  on_host([&] { desk.open(); });
  for (int i = 0; i < 32; ++i) guest.wait(1 + 2 * i);
  EXPECT_EQ(desk.begun, 32);
}

TEST_F(Connected, a_client_that_vanishes_at_any_byte_leaves_nothing) {
  desk.big.assign(30'000, 'b');
  desk.parts = {std::string(20'000, 'q')};
  std::string all = preface() + get_frame(1, "/wait") + get_frame(3, "/big") + get_frame(5, "/stream") +
                    frame(NGHTTP2_HEADERS, end_headers, 7,
                          field(":method", "POST") + field(":scheme", "https") + field(":authority", "h") +
                              field(":path", "/read")) +
                    frame(NGHTTP2_DATA, 0, 7, "half a body");
  for (std::size_t cut = 1; cut <= all.size(); cut += 3) {
    H2Guest guest = connect_raw();
    guest.send(all.substr(0, cut));
    guest.run_for(Duration::millis(10));
    guest.guest.close(cut % 2 == 0);
    world.run_until([&] { return server.connections() == 0; }, Duration::seconds(30));
    ASSERT_EQ(server.connections(), 0u) << cut;
    ASSERT_EQ(desk.running, 0) << cut;
    ASSERT_EQ(machine.slab.outstanding(), 0u) << cut;
  }
  EXPECT_EQ(desk.begun, static_cast<int>(desk.complete.size()));
}

TEST_F(Connected, a_peer_that_has_no_more_to_say_ends_what_has_just_begun) {
  H2Guest guest = connect_raw();
  guest.send(preface() + get_frame(1, "/open-wait") + get_frame(3, "/wait"));
  guest.guest.close(false);
  EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::seconds(3)));
  EXPECT_EQ(desk.running, 0);
}

TEST_F(Connected, streamed_answers_take_turns) {
  desk.parts.assign(40, std::string(60'000, 'p'));
  H2Guest guest = connect_with_window(1 << 24);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(guest.get("/stream"));
  guest.open_window(0, 1 << 24);
  const auto bytes = [&](std::int32_t id) { return guest.reply(id).body.size(); };
  ASSERT_TRUE(guest.until([&] { return bytes(ids[0]) > 1'000'000; }));
  for (const auto id : ids) EXPECT_GT(bytes(id), 500'000u) << id;
  for (const auto id : ids) EXPECT_EQ(guest.wait(id).body.size(), 2'400'000u);
}

TEST_F(Connected, sources_that_stall_do_not_hold_up_the_others) {
  desk.parts = {"begun"};
  desk.parts_end = Parts::End::never;
  H2Guest guest = connect();
  std::vector<std::int32_t> stalled;
  for (int i = 0; i < 20; ++i) stalled.push_back(guest.get("/stream"));
  guest.run_for(Duration::seconds(1));
  for (const std::int32_t id : stalled) EXPECT_EQ(guest.reply(id).body, "begun");
  desk.parts = {std::string(50'000, 'p'), std::string(10'001, 'q')};
  desk.parts_end = Parts::End::normal;
  const auto good = guest.get("/stream");
  guest.run_for(Duration::seconds(1));
  EXPECT_TRUE(guest.reply(good).ended);
  EXPECT_EQ(guest.reply(good).body.size(), 60'001u);
}

TEST_F(Connected, sources_that_drip_do_not_hold_up_the_others) {
  desk.parts.assign(1000, "drop");
  desk.parts_pause = Duration::millis(50);
  H2Guest guest = connect_with_window(1 << 24);
  guest.open_window(0, 1 << 24);
  std::vector<std::int32_t> dripping;
  for (int i = 0; i < 20; ++i) dripping.push_back(guest.get("/stream"));
  guest.run_for(Duration::seconds(1));
  desk.parts.assign(100, std::string(60'000, 'p'));
  desk.parts_pause = {};
  const auto good = guest.get("/stream");
  guest.run_for(Duration::seconds(1));
  EXPECT_TRUE(guest.reply(good).ended);
  EXPECT_EQ(guest.reply(good).body.size(), 6'000'000u);
  for (const auto id : dripping) EXPECT_GT(guest.reply(id).body.size(), 4u * 30) << id;
}

TEST_F(Connected, an_idle_connection_ends_with_goaway) {
  H2Guest guest = connect();
  guest.wait(guest.get("/x"));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(63)));
  EXPECT_EQ(guest.goaway, NGHTTP2_NO_ERROR);
  EXPECT_FALSE(guest.guest.broken());
}

TEST_F(Connected, draining_tells_twice_and_answers_all_that_arrived_before_the_second) {
  H2Guest guest = connect_raw();
  guest.send(preface() + get_frame(1, "/wait"));
  guest.run_for(Duration::millis(10));
  on_host([&] { server.drain(); });
  guest.run_for(Duration::millis(10));
  EXPECT_THAT(guest.last_ids, ElementsAre(0x7fffffff));
  guest.send(get_frame(3, "/between"));  // it was on its way
  EXPECT_EQ(guest.wait(3).body, "/between");
  guest.run_for(Duration::millis(400));
  EXPECT_THAT(guest.last_ids, ElementsAre(0x7fffffff, 3));
  guest.send(get_frame(5, "/too-late"));
  guest.run_for(Duration::millis(10));
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(1).status, 200);
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_FALSE(guest.guest.broken());
  EXPECT_EQ(desk.finished_count(true), 2u);
}

TEST_F(Connected, whatever_begins_while_draining_is_named_by_the_last_goaway) {
  world.network().faults.send_buffer = world.network().faults.window = 1500;
  desk.big.assign(60'000, 'b');
  H2Guest guest = connect_raw();
  guest.send(preface() + get_frame(1, "/big"));
  guest.guest.reading = false;  // what the server says of draining waits behind the answer
  guest.run_for(Duration::millis(10));
  on_host([&] { server.drain(); });
  std::uint32_t id = 3;
  for (int i = 0; i < 40; ++i, id += 2) {
    guest.send(get_frame(id, "/during"));
    guest.run_for(Duration::millis(10));
    if (i == 30) guest.guest.reading = true;
  }
  EXPECT_TRUE(guest.until_ended(Duration::seconds(10)));
  ASSERT_FALSE(guest.last_ids.empty());
  EXPECT_EQ(desk.begun, (guest.last_ids.back() + 1) / 2);
  for (std::int32_t i = 3; i <= guest.last_ids.back(); i += 2) EXPECT_EQ(guest.reply(i).body, "/during") << i;
}

TEST_F(Connected, whoever_is_cut_by_the_end_of_the_drain_is_told_so) {
  H2Guest guest = connect();
  std::vector<std::int32_t> waiting;
  for (int i = 0; i < 40; ++i) waiting.push_back(guest.get("/wait"));  // of which 32 run
  const auto unfinished = guest.ask("POST", "/read", "some", false);
  guest.run_for(Duration::millis(10));
  on_host([&] { server.drain(); });
  guest.run_for(Duration::millis(400));
  on_host([&] {
    host.scope().cancel(StopReason::draining);
    host.scope().abort();
  });
  EXPECT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_FALSE(guest.guest.broken());
  for (std::size_t i = 0; i < waiting.size(); ++i)
    EXPECT_EQ(guest.reply(waiting[i]).status, i < 32 ? 200 : 503) << i;
  EXPECT_GE(guest.reply(unfinished).status, 400);
}

TEST_F(Connected, open_streams_end_when_draining_begins) {
  desk.parts = {"event"};
  H2Guest guest = connect();
  const auto stream = guest.get("/open"), poll = guest.get("/open-wait");
  ASSERT_TRUE(guest.until([&] { return guest.reply(stream).body == "event"; }));
  on_host([&] { server.drain(); });
  EXPECT_TRUE(guest.wait(stream, Duration::seconds(5)).ended);
  EXPECT_EQ(guest.wait(poll, Duration::seconds(5)).status, 200);
  EXPECT_THAT(desk.stopped, ElementsAre(StopReason::draining));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_EQ(desk.finished_count(true), 2u);
}

TEST_F(Connected, open_streams_beyond_the_first_take_places_and_give_them_back) {
  desk.parts = {"event"};
  desk.places = 1;
  H2Guest guest = connect();
  const auto first = guest.get("/open"), second = guest.get("/open"), third = guest.get("/open");
  EXPECT_EQ(guest.wait(third).status, 429);
  ASSERT_TRUE(guest.until([&] { return guest.reply(second).body == "event"; }));
  EXPECT_EQ(desk.places, 0);
  guest.reset(second);
  guest.run_for(Duration::millis(10));
  EXPECT_EQ(desk.places, 1);
  EXPECT_EQ(guest.reply(first).status, 200);
}

TEST_F(Connected, open_streams_do_not_use_up_the_handlers) {
  desk.parts = {"event"};
  H2Guest guest = connect();
  for (int i = 0; i < 40; ++i) guest.get("/open-wait");
  EXPECT_EQ(guest.wait(guest.ask("POST", "/read", "x"), Duration::seconds(1)).status, 200);
  on_host([&] { desk.open(); });
  for (int i = 0; i < 40; ++i) guest.wait(1 + 2 * i);
}

TEST_F(Connected, a_connection_beyond_the_caps_is_told_so_and_ends) {
  desk.verdict = Gate::Admission::extra;
  H2Guest guest = connect();
  EXPECT_EQ(guest.wait(guest.get("/x")).status, 200) << "the answerer of this test serves whoever comes";
  EXPECT_TRUE(guest.until_ended(Duration::seconds(62)));
  H2Guest silent = connect();
  EXPECT_TRUE(silent.until_ended(Duration::seconds(5))) << "its time for a head is short";
}

TEST_F(Connected, a_connection_gives_way_only_when_it_is_idle) {
  const Server::Among all{[](const void*, const io::PeerAddress&) noexcept { return true; }, nullptr};
  H2Guest guest = connect();
  guest.get("/wait");
  guest.run_for(Duration::seconds(2));
  on_host([&] { EXPECT_FALSE(server.let_one_give_way(all)); });
  on_host([&] { desk.open(); });
  guest.wait(1);
  guest.run_for(Duration::seconds(2));
  on_host([&] { EXPECT_TRUE(server.let_one_give_way(all)); });
  EXPECT_TRUE(guest.until_ended(Duration::seconds(1)));
}

// --- RFC 8441

TEST_F(Connected, a_websocket_is_asked_for_by_an_extended_connect) {
  H2Guest guest = connect_raw();
  guest.send(preface() +
             frame(NGHTTP2_HEADERS, end_headers, 1,
                   field(":method", "CONNECT") + field(":protocol", "websocket") + field(":scheme", "https") +
                       field(":authority", "h") + field(":path", "/switch")));
  ASSERT_TRUE(guest.until([&] { return guest.reply(1).status != 0; }));
  EXPECT_EQ(guest.reply(1).status, 200);
  EXPECT_THAT(desk.methods, ElementsAre("GET"));
  guest.send(frame(NGHTTP2_DATA, 0, 1, "raw "));
  ASSERT_TRUE(guest.until([&] { return guest.reply(1).body == "raw "; }));
  guest.run_for(Duration::seconds(20));
  guest.send(frame(NGHTTP2_DATA, end_stream, 1, "bytes"));
  EXPECT_EQ(guest.wait(1).body, "raw bytes");
  EXPECT_TRUE(guest.reply(1).ended);
  guest.send(frame(NGHTTP2_HEADERS, end_headers, 3,
                   field(":method", "CONNECT") + field(":protocol", "other") + field(":scheme", "https") +
                       field(":authority", "h") + field(":path", "/switch")));
  EXPECT_EQ(guest.wait(3).status, 501);
  guest.send(get_frame(5, "/switch"));
  EXPECT_EQ(guest.wait(5).body, "/switch") << "without asking, nothing is switched";
}

}  // namespace
}  // namespace cairn::http::h2
