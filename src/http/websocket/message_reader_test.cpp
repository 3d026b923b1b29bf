#include "http/websocket/message_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "http/websocket/client_frames.h"

namespace cairn::http::websocket {
namespace {

using Kind = MessageReader::Kind;

struct Heard {
  std::vector<ServerFrame> messages;  // in the order in which they were given out
  std::optional<CloseCode> failed;
  std::size_t decided_at = 0;  // bytes taken when it failed
};

Heard read(std::string_view stream, std::size_t piece = 1, std::size_t max = 1000) {
  MessageReader reader(max);
  Heard heard;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    for (std::string_view bytes = stream.substr(at, piece); !bytes.empty();) {
      const Kind kind = reader.next(bytes);
      if (kind == Kind::need_more) continue;
      if (kind == Kind::failed) {
        heard.failed = reader.code();
        heard.decided_at = std::min(at + piece, stream.size()) - bytes.size();
        EXPECT_STRNE(reader.fault(), "");
      } else if (kind == Kind::close) {
        std::string payload = std::to_string(static_cast<int>(reader.code()));
        heard.messages.push_back({Opcode::close, payload.append(":").append(reader.payload())});
      } else {
        heard.messages.push_back({reader.given(), std::string(reader.payload())});
      }
    }
  }
  return heard;
}
std::optional<CloseCode> fault_of(std::string_view stream) {
  const Heard one = read(stream);
  for (const std::size_t piece : {2u, 3u, 7u, 1000u}) {
    EXPECT_EQ(read(stream, piece).messages, one.messages) << piece;
    EXPECT_EQ(read(stream, piece).failed, one.failed) << piece;
  }
  return one.failed;
}
std::string first_two(unsigned first, unsigned second) {
  return {static_cast<char>(first), static_cast<char>(second)};
}

TEST(MessageReader, messages_come_out_whole_whatever_the_pieces) {
  const std::string stream = client_frame(Opcode::text, "hello") + client_frame(Opcode::binary, "\xff\x01") +
                             client_frame(Opcode::text, "") +
                             client_frame(Opcode::text, std::string(126, 'a')) +
                             client_frame(Opcode::ping, "p") + client_frame(Opcode::pong, "");
  const std::vector<ServerFrame> expected{{Opcode::text, "hello"}, {Opcode::binary, "\xff\x01"},
                                          {Opcode::text, ""},      {Opcode::text, std::string(126, 'a')},
                                          {Opcode::ping, "p"},     {Opcode::pong, ""}};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece)
    EXPECT_EQ(read(stream, piece).messages, expected) << piece;
}

TEST(MessageReader, parts_are_one_message_and_control_frames_come_between_them) {
  const std::string stream = client_frame(Opcode::text, "one ", false) + client_frame(Opcode::ping, "a") +
                             client_frame(Opcode::more, "", false) +
                             client_frame(Opcode::more, "two ", false) + client_frame(Opcode::pong, "b") +
                             client_frame(Opcode::more, "three") + client_frame(Opcode::text, "x");
  const std::vector<ServerFrame> expected{
      {Opcode::ping, "a"}, {Opcode::pong, "b"}, {Opcode::text, "one two three"}, {Opcode::text, "x"}};
  for (const std::size_t piece : {1u, 2u, 5u, 100u}) EXPECT_EQ(read(stream, piece).messages, expected);
}

TEST(MessageReader, a_frame_that_breaks_a_rule_is_a_protocol_error) {
  const std::string mask(4, '\0');
  const std::string wrong[] = {
      first_two(0x81, 0x01) + "x",                                     // no mask
      first_two(0xc1, 0x80) + mask,                                    // reserved bits
      first_two(0xa1, 0x80) + mask,                                    //
      first_two(0x91, 0x80) + mask,                                    //
      first_two(0x83, 0x80) + mask,                                    // opcodes
      first_two(0x87, 0x80) + mask,                                    //
      first_two(0x8b, 0x80) + mask,                                    //
      first_two(0x8f, 0x80) + mask,                                    //
      first_two(0x09, 0x80) + mask,                                    // control frames in parts
      first_two(0x08, 0x80) + mask,                                    //
      first_two(0x89, 0xfe) + std::string("\0\x7e", 2) + mask,         // or long
      first_two(0x88, 0xfe) + std::string("\0\x7e", 2) + mask,         //
      first_two(0x80, 0x80) + mask,                                    // a part without a beginning
      first_two(0x81, 0xfe) + std::string("\0\x7d", 2) + mask,         // lengths
      first_two(0x81, 0xff) + std::string("\0\0\0\0\0\0\xff\xff", 8),  //
      first_two(0x81, 0xff) + std::string("\x80\0\0\0\0\1\0\0", 8),    //
      first_two(0x88, 0x81) + mask + "x",                              // half a close code
      client_frame(Opcode::text, "a", false) + client_frame(Opcode::text, "b"),
      client_frame(Opcode::text, "a", false) + client_frame(Opcode::binary, "b"),
      client_frame(Opcode::text, "a") + client_frame(Opcode::more, "b"),
  };
  for (const std::string& stream : wrong)
    EXPECT_EQ(fault_of(stream), CloseCode::protocol_error) << format_hex(as_bytes(stream));
}

TEST(MessageReader, a_fault_of_the_head_is_found_at_its_byte) {
  EXPECT_EQ(read(first_two(0xc1, 0x80) + "abc").decided_at, 1u);
  EXPECT_EQ(read(first_two(0x81, 0x05) + "hello").decided_at, 2u);
  EXPECT_EQ(read(first_two(0x81, 0xff) + std::string("\x80\0\0\0\0\1\0\0", 8)).decided_at, 3u);
}

TEST(MessageReader, only_close_codes_that_may_be_sent_are_taken) {
  for (unsigned code = 0; code < 5100; ++code) {
    const bool good = (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
                      (code >= 3000 && code <= 4999);
    const Heard heard = read(client_close(static_cast<std::uint16_t>(code), "why"), 100);
    if (good) {
      ASSERT_EQ(heard.messages.size(), 1u) << code;
      EXPECT_EQ(heard.messages[0].payload, std::to_string(code) + ":why");
    } else {
      EXPECT_EQ(heard.failed, CloseCode::protocol_error) << code;
    }
  }
  EXPECT_EQ(read(client_frame(Opcode::close, "")).messages[0].payload, "1005:");
  EXPECT_EQ(read(client_close(65535)).failed, CloseCode::protocol_error);
}

TEST(MessageReader, nothing_behind_a_close_is_read) {
  const Heard heard = read(client_close(1000) + client_frame(Opcode::text, "late") + "garbage", 1000);
  EXPECT_EQ(heard.messages.size(), 1u);
  EXPECT_EQ(heard.failed, std::nullopt);
}

TEST(MessageReader, a_text_that_is_not_utf8_is_bad_data_at_its_first_wrong_byte) {
  EXPECT_EQ(read(client_frame(Opcode::text, "h\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\x89")).messages.size(), 1u);
  for (const char* bad :
       {"\xff", "a\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xc3"})
    EXPECT_EQ(fault_of(client_frame(Opcode::text, bad)), CloseCode::bad_data) << bad;
  // In the first part already, although more would follow.
  EXPECT_EQ(read(client_frame(Opcode::text,
                              "ab\xff"
                              "cd",
                              false))
                .decided_at,
            9u);
  EXPECT_EQ(read(client_frame(Opcode::binary, "\xff\xc0")).messages.size(), 1u);
  EXPECT_EQ(fault_of(client_close(1000, "\xff")), CloseCode::bad_data);
}

TEST(MessageReader, a_character_may_be_cut_by_parts_but_not_by_the_end) {
  const auto two = [](Opcode opcode, std::string_view a, std::string_view b) {
    return client_frame(opcode, a, false) + client_frame(Opcode::ping, "\xff") +
           client_frame(Opcode::more, b);
  };
  const Heard heard = read(two(Opcode::text, "\xe2\x82", "\xac"));
  ASSERT_EQ(heard.messages.size(), 2u);
  EXPECT_EQ(heard.messages[1].payload, "\xe2\x82\xac");
  EXPECT_EQ(fault_of(two(Opcode::text, "\xe2\x82", "")), CloseCode::bad_data);
  EXPECT_EQ(fault_of(two(Opcode::text, "\xe2\x82", "x")), CloseCode::bad_data);
  // The next text begins anew.
  EXPECT_EQ(read(client_frame(Opcode::binary, "\xe2") + client_frame(Opcode::text, "x")).messages.size(), 2u);
}

// MR-1
TEST(MessageReader, a_message_over_the_cap_is_too_big_before_its_bytes_come) {
  EXPECT_EQ(read(client_frame(Opcode::text, std::string(1000, 'a'))).messages.size(), 1u);
  const std::string over = client_frame(Opcode::text, std::string(1001, 'a'));
  EXPECT_EQ(fault_of(over), CloseCode::too_big);
  EXPECT_EQ(read(over).decided_at, 4u);
  EXPECT_EQ(read(first_two(0x82, 0xff) + std::string("\x7f\xff\xff\xff\xff\xff\xff\xff", 8)).failed,
            CloseCode::too_big);
  // All parts together.
  const std::string half(600, 'a');
  EXPECT_EQ(fault_of(client_frame(Opcode::text, half, false) + client_frame(Opcode::more, half)),
            CloseCode::too_big);
  // And the next message has the whole room again.
  const std::string full = client_frame(Opcode::binary, std::string(1000, 'b'));
  EXPECT_EQ(read(full + client_frame(Opcode::ping, "x") + full).messages.size(), 3u);
}

TEST(Frame, what_a_server_writes_has_the_shortest_length_and_no_mask) {
  for (const std::size_t size : {0u, 1u, 125u, 126u, 65535u, 65536u, 70000u}) {
    std::string out;
    append_text(out, std::string(size, 't'));
    const std::size_t head = size < 126 ? 2 : size < 65536 ? 4 : 10;
    EXPECT_EQ(out.size(), head + size);
    const auto frames = read_server_frames(out);
    ASSERT_TRUE(frames.has_value());
    EXPECT_EQ(*frames, (std::vector<ServerFrame>{{Opcode::text, std::string(size, 't')}}));
  }
}

TEST(Frame, a_reason_that_does_not_fit_is_cut_between_characters) {
  std::string out, reason;
  for (int i = 0; i < 100; ++i) reason += "\xe2\x82\xac";
  append_close(out, CloseCode::policy, reason);
  EXPECT_EQ(out.size(), 2 + 2 + 123u);
  out.clear();
  append_close(out, CloseCode::policy, "x" + reason);
  EXPECT_EQ(out.size(), 2 + 2 + 121u);
  out.clear();
  append_close(out, CloseCode::none, "never said");
  EXPECT_EQ(out, std::string("\x88\0", 2));
}

}  // namespace
}  // namespace cairn::http::websocket
