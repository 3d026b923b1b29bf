#include "serve/body.h"

#include <gtest/gtest.h>

#include <zlib.h>

#include <string>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using io::sim::Guest;

std::string deflated(const std::string& text, int window_bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY), Z_OK);
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
std::string gzip(const std::string& text) { return deflated(text, 15 + 16); }

// Text that compresses about three times, so that no guard minds.
std::string words(std::size_t size) {
  std::string text;
  Random random(3);
  while (text.size() < size) text += "word" + std::to_string(random.next() % 1'000'000) + " ";
  text.resize(size);
  return text;
}

constexpr std::string_view coded = "Content-Encoding: gzip\r\n";

TEST(Body, a_plain_body_is_what_was_sent) {
  SimulatedNode sample;
  const std::string text = words(100'000);
  EXPECT_EQ(sample.connect().ask(post("/echo", text)).body, text);
  EXPECT_EQ(sample.connect().ask(post("/echo", "")).body, "");
}

TEST(Body, a_gzip_body_may_be_split_at_every_byte) {
  SimulatedNode sample;
  const std::string text = words(200);
  const std::string request = post("/echo", gzip(text), coded);
  const std::size_t body_at = request.find("\r\n\r\n") + 4;
  for (std::size_t cut = body_at - 1; cut < request.size(); ++cut) {
    Guest guest = sample.connect();
    guest.send(request.substr(0, cut));
    guest.run_for(Duration::millis(10));
    EXPECT_EQ(guest.ask(request.substr(cut)).body, text) << cut;
    guest.close();
  }
}

TEST(Body, a_body_larger_than_any_buffer_is_decoded_whole) {
  SimulatedNode sample;
  for (const std::size_t size : {16383u, 16384u, 16385u, 32768u, 900'000u}) {
    const std::string text = words(size);
    const Answer answer = sample.connect().ask(post("/echo", gzip(text), coded));
    EXPECT_EQ(answer.status, 200) << size;
    EXPECT_TRUE(answer.body == text) << size;
  }
}

TEST(Body, a_chunked_gzip_body_is_decoded) {
  SimulatedNode sample;
  const std::string text = words(3000);
  const std::string packed = gzip(text);
  std::string wire =
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n";
  for (std::size_t at = 0; at < packed.size(); at += 7) {
    const std::string piece = packed.substr(at, 7);
    wire += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  EXPECT_EQ(sample.connect().ask(wire + "0\r\n\r\n").body, text);
}

TEST(Body, deflate_and_identity_are_understood) {
  SimulatedNode sample;
  const std::string text = words(1000);
  EXPECT_EQ(sample.connect().ask(post("/echo", deflated(text, 15), "Content-Encoding: deflate\r\n")).body,
            text);
  EXPECT_EQ(sample.connect().ask(post("/echo", text, "Content-Encoding: identity\r\n")).body, text);
}

TEST(Body, a_bomb_is_refused_and_costs_no_more_than_its_allowance) {
  SimulatedNode sample;
  const std::string bomb = gzip(std::string(50 << 20, '\0'));
  const Answer answer = sample.connect().ask(post("/echo", bomb, coded));
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("decoded_ratio"), std::string::npos);
  EXPECT_EQ(sample.service.state.slab->outstanding(), 0u);
}

TEST(Body, a_decoded_size_over_the_cap_is_refused) {
  SimulatedNode sample({{"limits.decoded_bytes", "10KiB"}});
  const Answer answer = sample.connect().ask(post("/echo", gzip(words(10'241)), coded));
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("decoded_cap"), std::string::npos);
  EXPECT_EQ(sample.connect().ask(post("/echo", gzip(words(10'240)), coded)).status, 200);
}

TEST(Body, a_coded_body_is_accepted_only_whole) {
  SimulatedNode sample;
  const std::string packed = gzip(words(500));
  std::string flipped = packed;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x10);
  for (const std::string& bad : {packed.substr(0, packed.size() - 1), packed.substr(0, 5), std::string(),
                                 packed + "x", packed + packed, flipped}) {
    const Answer answer = sample.connect().ask(post("/echo", bad, coded));
    EXPECT_EQ(answer.status, 400) << bad.size();
    EXPECT_NE(answer.body.find("\"malformed\""), std::string::npos) << answer.body;
  }
}

}  // namespace
}  // namespace cairn::serve
