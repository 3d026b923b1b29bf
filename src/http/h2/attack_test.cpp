// What attackers of HTTP/2 do, and what it costs: each has a name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/h2/simulated_desk.h"

namespace cairn::http::h2 {
namespace {

using Attack = H2Test;

std::string post_frame(std::uint32_t stream, std::string_view path) {
  return frame(
      NGHTTP2_HEADERS, end_headers, stream,
      field(":method", "POST") + field(":scheme", "https") + field(":authority", "h") + field(":path", path));
}

// One field of almost the size of the table, which keeps it: its index alone is as much again.
std::string large_field() {
  constexpr char size[] = "\x7f\xa1\x1e";  // 4000
  return std::string("\x40\x01z") + size + std::string(4000, 'v');
}

TEST_F(Attack, rapid_reset_is_told_to_calm_down) {
  H2Guest guest = connect_raw();
  guest.send(preface());
  std::uint32_t sent = 0;
  for (std::uint32_t id = 1; id < 4000 && !guest.guest.ended() && !guest.goaway; id += 2, ++sent) {
    guest.send(get_frame(id, "/wait") + frame(NGHTTP2_RST_STREAM, 0, id, word(NGHTTP2_CANCEL)));
    if (id % 20 == 1) guest.run_for(Duration::millis(3));
  }
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_LE(desk.begun, 220);
  EXPECT_LE(desk.most, 32);
}

TEST_F(Attack, the_handlers_of_a_peer_that_must_calm_down_are_stopped_at_once) {
  H2Guest guest = connect_raw();
  guest.send(preface() + get_frame(1, "/wait"));
  guest.run_for(Duration::millis(10));
  for (int i = 0; i < 3000; ++i) guest.send(frame(NGHTTP2_PRIORITY, 0, 1, word(0) + "\x10"));
  guest.run_for(Duration::millis(100));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_THAT(desk.stopped, testing::ElementsAre(StopReason::client_gone));
}

TEST_F(Attack, a_client_that_cancels_now_and_then_is_left_alone) {
  H2Guest guest = connect();
  for (int i = 0; i < 300; ++i) {
    const auto id = guest.get("/wait");
    guest.run_for(Duration::millis(20));
    guest.reset(id);
    guest.run_for(Duration::millis(20));
  }
  EXPECT_EQ(guest.goaway, std::nullopt);
}

TEST_F(Attack, resets_that_the_server_is_provoked_to_count_too) {
  H2Guest guest = connect_raw();
  guest.send(preface());
  for (std::uint32_t id = 1; id < 4000 && !guest.guest.ended() && !guest.goaway; id += 2) {
    guest.send(get_frame(id, "/wait") + frame(NGHTTP2_WINDOW_UPDATE, 0, id, word(0)));
    if (id % 20 == 1) guest.run_for(Duration::millis(3));
  }
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_LE(desk.begun, 220);
}

TEST_F(Attack, resets_behind_a_part_of_a_body_count_too) {
  H2Guest guest = connect_raw();
  guest.send(preface());
  const std::string part(6 * 1024, 'x');  // earns more than its frames cost
  for (std::uint32_t id = 1; id < 4000 && !guest.guest.ended() && !guest.goaway; id += 2) {
    guest.send(post_frame(id, "/wait") + frame(NGHTTP2_DATA, 0, id, part) +
               frame(NGHTTP2_RST_STREAM, 0, id, word(NGHTTP2_CANCEL)));
    if (id % 20 == 1) guest.run_for(Duration::millis(3));
  }
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_LE(desk.begun, 260);
}

TEST_F(Attack, a_continuation_flood_ends_the_connection) {
  H2Guest guest = connect_raw();
  guest.send(preface() + frame(NGHTTP2_HEADERS, 0, 1, get_fields("/x")));
  std::string flood;
  for (int i = 0; i < 20; ++i) flood += frame(NGHTTP2_CONTINUATION, 0, 1, field("x-a", "b"));
  guest.send(flood);
  EXPECT_TRUE(guest.until_ended(Duration::seconds(3)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(desk.begun, 0);
}

TEST_F(Attack, a_flood_of_empty_data_frames_ends_the_connection) {
  H2Guest guest = connect_raw();
  guest.send(preface() + post_frame(1, "/read"));
  for (int i = 0; i < 3000 && !guest.guest.ended(); ++i) guest.send(frame(NGHTTP2_DATA, 0, 1));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(Attack, floods_of_frames_that_control_end_the_connection) {
  const std::pair<std::string, std::string> floods[] = {
      {"settings", frame(NGHTTP2_SETTINGS, 0, 0, setting(NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 20'000))},
      {"ping", frame(NGHTTP2_PING, 0, 0, "12345678")},
      {"priority", frame(NGHTTP2_PRIORITY, 0, 1, word(0) + "\x10")},
      {"window update", frame(NGHTTP2_WINDOW_UPDATE, 0, 0, word(1))},
      {"reset of nothing", frame(NGHTTP2_RST_STREAM, 0, 1, word(0))},
  };
  for (const auto& [name, bytes] : floods) {
    H2Guest guest = connect_raw();
    guest.send(preface() + get_frame(1, "/x"));
    for (int i = 0; i < 4000 && !guest.guest.ended() && !guest.goaway; ++i) {
      guest.send(bytes);
      if (i % 100 == 0) guest.run_for(Duration::micros(500));
    }
    EXPECT_TRUE(guest.until_ended(Duration::seconds(4))) << name;
    EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM) << name;
  }
}

TEST_F(Attack, a_flood_within_one_read_is_told_to_calm_down) {
  std::string flood;
  for (int i = 0; i < 5000; ++i) flood += frame(NGHTTP2_SETTINGS, 0, 0);
  H2Guest guest = connect_raw();
  guest.send(preface() + flood);
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(Attack, replies_to_pings_that_are_not_read_are_bounded) {
  H2Guest guest = connect_raw();
  guest.guest.reading = false;
  guest.send(preface());
  std::string pings;
  for (int i = 0; i < 200; ++i) pings += frame(NGHTTP2_PING, 0, 0, "12345678");
  for (int i = 0; i < 200; ++i) {
    guest.send(pings);
    guest.run_for(Duration::micros(500));
  }
  EXPECT_LE(machine.slab.bytes_in_use(), 128u * 1024);
  world.run_until([&] { return server.connections() == 0; }, Duration::seconds(10));
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(Attack, a_window_that_stays_shut_costs_little_and_not_for_long) {
  desk.big.assign(300'000, 'b');
  desk.parts.assign(10, std::string(60'000, 'p'));
  H2Guest guest = connect_with_window(0);
  for (int i = 0; i < 100; ++i) guest.get(i % 3 == 0 ? "/text" : i % 3 == 1 ? "/stream" : "/big");
  guest.run_for(Duration::seconds(1));
  EXPECT_LE(machine.slab.bytes_in_use(), 128u * 1024);
  EXPECT_LE(desk.begun, 100);
  guest.run_for(Duration::seconds(400));
  EXPECT_GE(desk.slow_writes, 1);
  EXPECT_EQ(desk.begun, static_cast<int>(desk.complete.size())) << "nothing is held for ever";
  EXPECT_EQ(desk.finished_count(true), 0u);
}

TEST_F(Attack, texts_that_wait_for_a_shut_window_hold_up_what_would_make_more) {
  desk.big.assign(40'000, 'b');
  H2Guest guest = connect_with_window(0);
  for (int i = 0; i < 50; ++i) guest.get("/text");
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(desk.begun, 2);
}

TEST_F(Attack, a_window_of_one_byte_is_served_or_ended_but_never_for_ever) {
  desk.big.assign(100'000, 'b');
  H2Guest guest = connect_with_window(0);
  const auto id = guest.get("/big");
  for (int i = 0; i < 6000 && !guest.guest.ended() && !guest.goaway; ++i) {
    guest.open_window(id, 1);
    guest.run_for(Duration::micros(300));
  }
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(Attack, a_client_that_never_reads_costs_at_most_128_kib_and_is_ended) {
  desk.big.assign(5'000'000, 'b');
  desk.parts.assign(100, std::string(60'000, 'p'));
  H2Guest guest = connect_with_window(0x7fffffff);
  guest.open_window(0, 0x7fff0000 - 65535);
  guest.guest.reading = false;
  for (int i = 0; i < 100; ++i) guest.get(i % 2 == 0 ? "/stream" : "/big");
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    guest.run_for(Duration::millis(50));
    most = std::max(most, machine.slab.bytes_in_use());
  }
  EXPECT_LE(most, 200u * 1024) << "two pieces of sources at most, beside what is being sent";
  world.run_until([&] { return server.connections() == 0; }, Duration::seconds(120));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_GE(desk.slow_writes, 1);
}

TEST_F(Attack, pieces_that_wait_for_windows_of_one_byte_cost_at_most_128_kib) {
  desk.parts.assign(10, std::string(60'000, 'p'));
  H2Guest guest = connect_with_window(1);
  for (int i = 0; i < 100; ++i) guest.get("/stream");
  std::size_t most = 0;
  for (int i = 0; i < 60; ++i) {
    guest.run_for(Duration::millis(500));
    most = std::max(most, machine.slab.bytes_in_use());
  }
  EXPECT_LE(most, 200u * 1024) << "two pieces of sources at most, beside what is being sent";
}

TEST_F(Attack, pieces_of_slow_sources_that_wait_for_windows_are_bounded_too) {
  desk.parts.assign(10, std::string(60'000, 'p'));
  desk.parts.front() = "x";
  desk.parts_pause = Duration::millis(50);
  H2Guest guest = connect_with_window(1);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(guest.get("/stream"));
  guest.run_for(Duration::seconds(2));
  for (const auto id : ids) EXPECT_EQ(guest.reply(id).body, "x");  // all of them are known to be slow
  for (const auto id : ids) guest.open_window(id, 1);
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    guest.run_for(Duration::millis(20));
    most = std::max(most, machine.slab.bytes_in_use());
  }
  EXPECT_LE(most, (32u * 64 + 200) * 1024) << "32 pieces of slow sources, beside what prompt ones may have";
}

TEST_F(Attack, pings_do_not_pay_for_a_window_that_stays_shut) {
  desk.big.assign(300'000, 'b');
  H2Guest guest = connect_with_window(1 << 20);  // and the connection's own is never opened
  const auto id = guest.get("/big");
  for (int i = 0; i < 4000 && !guest.guest.ended() && !guest.guest.broken(); ++i) {
    guest.send(frame(NGHTTP2_PING, 0, 0, "12345678"));
    guest.run_for(Duration::millis(15));
  }
  EXPECT_EQ(guest.reply(id).body.size(), 65'535u);
  EXPECT_TRUE(guest.guest.ended() || guest.guest.broken());
  EXPECT_GE(desk.slow_writes, 1);
}

TEST_F(Attack, a_refused_head_in_two_parts_does_not_end_the_other_streams) {
  H2Guest guest = connect_raw();
  std::string all = preface();
  for (std::uint32_t i = 0; i < 100; ++i) all += get_frame(1 + 2 * i, "/wait");
  guest.send(all + frame(NGHTTP2_HEADERS, end_stream, 201, get_fields("/wait")));
  guest.run_for(Duration::millis(100));
  guest.send(frame(NGHTTP2_CONTINUATION, end_headers, 201, field("x-a", "b")));
  guest.run_for(Duration::seconds(20));
  EXPECT_EQ(guest.reply(201).reset, NGHTTP2_REFUSED_STREAM);
  EXPECT_EQ(guest.goaway, std::nullopt);
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(1).status, 200);
}

TEST_F(Attack, what_is_refused_for_want_of_room_is_not_held_against_the_peer) {
  H2Guest guest = connect();
  const H2Guest::Fields large{{"x-large", std::string(8000, 'l')}};
  for (int i = 0; i < 400; ++i) {
    guest.get("/wait", large);
    guest.run_for(Duration::millis(5));
  }
  EXPECT_EQ(guest.goaway, std::nullopt);
  EXPECT_FALSE(guest.guest.ended());
}

TEST_F(Attack, a_window_that_grows_beyond_its_maximum_is_refused) {
  H2Guest guest = connect_raw();
  guest.send(preface() + frame(NGHTTP2_WINDOW_UPDATE, 0, 0, word(0x7fffffff)));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_F(Attack, more_body_than_the_window_is_refused) {
  H2Guest guest = connect_raw();
  guest.send(preface() + post_frame(1, "/read-late"));
  for (int i = 0; i < 5; ++i) guest.send(frame(NGHTTP2_DATA, 0, 1, std::string(16'000, 'x')));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_F(Attack, a_header_bomb_ends_the_connection) {
  H2Guest guest = connect_raw();
  guest.send(preface() +
             frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, get_fields("/x", large_field())));
  EXPECT_EQ(guest.wait(1).status, 200) << "the table has it now";
  guest.send(
      frame(NGHTTP2_HEADERS, end_headers | end_stream, 3, get_fields("/x", std::string(10'000, '\xbe'))));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(desk.begun, 1);
}

TEST_F(Attack, trailers_are_bounded_as_heads_are) {
  H2Guest guest = connect_raw();
  guest.send(preface() +
             frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, get_fields("/x", large_field())));
  EXPECT_EQ(guest.wait(1).status, 200) << "the table has it now";
  guest.send(post_frame(3, "/read") +
             frame(NGHTTP2_HEADERS, end_headers | end_stream, 3, std::string(10'000, '\xbe')));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(Attack, a_table_larger_than_was_allowed_is_an_error) {
  H2Guest guest = connect_raw();
  guest.send(preface() +
             frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, "\x3f\xe1\x7f" + get_fields("/x")));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_COMPRESSION_ERROR);
}

TEST_F(Attack, heads_are_kept_within_a_bound_and_what_is_beyond_may_be_asked_again) {
  H2Guest guest = connect();
  const H2Guest::Fields large{{"x-large", std::string(8000, 'l')}};
  for (int i = 0; i < 20; ++i) guest.get("/wait", large);
  guest.run_for(Duration::millis(100));
  EXPECT_LE(desk.running, 6);
  EXPECT_EQ(guest.reply(39).reset, NGHTTP2_REFUSED_STREAM);
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(1).status, 200);
  EXPECT_EQ(guest.wait(guest.get("/x", large)).status, 200);
}

TEST_F(Attack, a_stream_id_of_the_servers_ends_the_connection_and_one_that_goes_back_begins_nothing) {
  H2Guest guest = connect_raw();
  guest.send(preface() + get_frame(5, "/x"));
  guest.wait(5);
  guest.send(get_frame(3, "/y") + get_frame(1, "/y") + get_frame(7, "/z"));
  EXPECT_EQ(guest.wait(7).body, "/z");
  EXPECT_EQ(guest.reply(3).status, 0);
  guest.send(get_frame(2, "/y"));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(4)));
  EXPECT_EQ(guest.goaway, NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(desk.begun, 2);
}

TEST_F(Attack, a_late_trailer_of_a_stream_that_was_reset_is_no_slow_head) {
  H2Guest guest = connect_raw();
  guest.send(preface() + post_frame(1, "/x"));
  guest.wait(1);
  guest.send(frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, field("x-a", "b")));
  guest.run_for(Duration::seconds(20));
  guest.send(get_frame(3, "/z"));
  EXPECT_EQ(guest.wait(3).body, "/z");
}

TEST_F(Attack, more_streams_than_allowed_are_refused_unbegun) {
  H2Guest guest = connect_raw();
  guest.send(preface());
  std::string all;
  for (std::uint32_t i = 0; i < 150; ++i) all += get_frame(1 + 2 * i, "/wait");
  guest.send(all);
  guest.run_for(Duration::millis(100));
  EXPECT_EQ(desk.running, 32);
  EXPECT_EQ(guest.reply(201).reset, NGHTTP2_REFUSED_STREAM);
}

TEST_F(Attack, a_stream_that_was_reset_counts_until_its_handler_has_ended) {
  H2Guest guest = connect_raw();
  guest.send(preface());
  std::string resets;
  for (std::uint32_t i = 0; i < 32; ++i) {
    guest.send(get_frame(1 + 2 * i, "/stubborn"));
    resets += frame(NGHTTP2_RST_STREAM, 0, 1 + 2 * i, word(NGHTTP2_CANCEL));
  }
  guest.run_for(Duration::millis(10));
  guest.send(resets);
  guest.run_for(Duration::millis(10));
  EXPECT_EQ(desk.running, 32);
  for (std::uint32_t i = 32; i < 132; ++i) guest.send(get_frame(1 + 2 * i, "/x"));
  guest.run_for(Duration::millis(100));
  EXPECT_EQ(guest.reply(1 + 2 * 99).reset, std::nullopt);
  EXPECT_EQ(guest.reply(1 + 2 * 100).reset, NGHTTP2_REFUSED_STREAM);
  on_host([&] { desk.open(); });
  EXPECT_EQ(guest.wait(1 + 2 * 99).body, "/x");
}

TEST_F(Attack, half_a_head_ends_the_connection_when_its_time_is_up) {
  const std::string fields = get_fields("/x");
  const std::string heads[] = {
      frame(NGHTTP2_HEADERS, 0, 1, fields),                          // no END_HEADERS
      frame(NGHTTP2_HEADERS, end_headers, 1, fields).substr(0, 20),  // half a frame
      frame(NGHTTP2_HEADERS, 0, 1, fields) + frame(NGHTTP2_CONTINUATION, 0, 1, field("x-a", "b")),
  };
  for (const std::string& head : heads) {
    H2Guest guest = connect_raw();
    guest.send(preface());
    guest.run_for(Duration::seconds(1));
    guest.send(head);
    EXPECT_FALSE(guest.until_ended(Duration::millis(4900)));
    EXPECT_TRUE(guest.until_ended(Duration::millis(200)));
  }
  EXPECT_EQ(desk.slow_reads, 3);
  EXPECT_EQ(desk.begun, 0);
}

TEST_F(Attack, half_a_preface_ends_the_connection_when_its_time_is_up) {
  H2Guest guest = connect_raw();
  guest.send(preface().substr(0, 10));
  EXPECT_FALSE(guest.until_ended(Duration::millis(4900)));
  EXPECT_TRUE(guest.until_ended(Duration::millis(200)));
}

TEST_F(Attack, another_protocol_behind_the_handshake_is_ended_at_once) {
  H2Guest guest = connect_raw();
  guest.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_EQ(desk.begun, 0);
}

TEST_F(Attack, pings_do_not_keep_an_idle_connection) {
  H2Guest guest = connect_raw();
  guest.send(preface());
  for (int i = 0; i < 70 && !guest.guest.ended(); ++i) {
    guest.send(frame(NGHTTP2_PING, 0, 0, "12345678"));
    guest.run_for(Duration::seconds(1));
  }
  EXPECT_TRUE(guest.guest.ended());
  EXPECT_EQ(guest.goaway, NGHTTP2_NO_ERROR);
}

}  // namespace
}  // namespace cairn::http::h2
