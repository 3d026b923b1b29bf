#include "store/record.h"

#include <gtest/gtest.h>

#include "store/segment.h"

namespace cairn::store {
namespace {

SealKey key_of(std::uint8_t first) {
  SealKey key{};
  key[0] = std::byte{first};
  return key;
}

RecordHeader example() {
  RecordHeader header;
  header.kind = 3;
  header.meta_size = 5;
  header.data_size = 1000;
  header.sequence = 42;
  header.origin = 7;
  header.watermark = 41;
  header.offset = 4096;
  return header;
}

TEST(Record, what_was_encoded_is_found_again) {
  const auto bytes = encode_header(example(), as_bytes("hello"), key_of(1));
  const auto header = peek_header(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->kind, 3);
  EXPECT_EQ(header->meta_size, 5u);
  EXPECT_EQ(header->data_size, 1000u);
  EXPECT_EQ(header->sequence, 42u);
  EXPECT_EQ(header->origin, 7u);
  EXPECT_EQ(header->watermark, 41u);
  EXPECT_EQ(header->offset, 4096u);
  EXPECT_EQ(header->size(), 1072u);
  EXPECT_TRUE(is_tagged(bytes, key_of(1)));
  EXPECT_TRUE(is_sealed(bytes, as_bytes("hello"), key_of(1)));
}

TEST(Record, the_seal_breaks_with_any_bit_of_header_or_meta) {
  const auto bytes = encode_header(example(), as_bytes("hello"), key_of(1));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(is_sealed(flipped, as_bytes("hello"), key_of(1))) << bit;
  }
  EXPECT_FALSE(is_sealed(bytes, as_bytes("hellp"), key_of(1)));
  EXPECT_FALSE(is_sealed(bytes, as_bytes("hell"), key_of(1)));
  EXPECT_FALSE(is_sealed(bytes, as_bytes("hello"), key_of(2)));
  EXPECT_FALSE(is_tagged(bytes, key_of(2)));
}

TEST(Record, what_cannot_be_a_header_is_none) {
  const auto good = encode_header(example(), as_bytes("hello"), key_of(1));
  EXPECT_FALSE(peek_header(ByteView(good).first(63)));
  RecordHeader wrong = example();
  wrong.origin = 43;
  EXPECT_FALSE(peek_header(encode_header(wrong, as_bytes("hello"), key_of(1))));
  wrong = example();
  wrong.watermark = 42;
  EXPECT_FALSE(peek_header(encode_header(wrong, as_bytes("hello"), key_of(1))));
  wrong = example();
  wrong.data_size = record_data_max + 1;
  EXPECT_FALSE(peek_header(encode_header(wrong, as_bytes("hello"), key_of(1))));
  for (const std::size_t at : {0u, 5u, 6u}) {
    auto broken = good;
    broken[at] ^= std::byte{0x80};
    EXPECT_FALSE(peek_header(broken)) << at;
  }
}

TEST(Segment, headers_are_found_again_and_never_mistaken) {
  SegmentHeader header{9, 8, 5000, 77, 78, 77, key_of(5)};
  const HeapBytes bytes = encode_segment_header(header);
  ASSERT_EQ(bytes.size(), segment_header_size);
  SegmentHeader found;
  ASSERT_EQ(decode_segment_header(bytes.bytes(), found), HeadState::good);
  EXPECT_EQ(found.id, 9u);
  EXPECT_EQ(found.previous, 8u);
  EXPECT_EQ(found.previous_end, 5000u);
  EXPECT_EQ(found.previous_last, 77u);
  EXPECT_EQ(found.first_sequence, 78u);
  EXPECT_EQ(found.watermark, 77u);
  EXPECT_EQ(found.store_key, key_of(5));
  crypto::Hash key{};
  EXPECT_EQ(decode_key_file(bytes.bytes(), key), HeadState::damaged);
  EXPECT_EQ(decode_segment_header(encode_key_file(key).bytes(), found), HeadState::damaged);
  // Rot in the version is rot, not a newer version.
  for (std::size_t bit = 0; bit < head_size * 8; ++bit) {
    std::string flipped(as_text(bytes.bytes()));
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(decode_segment_header(as_bytes(flipped), found), HeadState::damaged) << bit;
  }
}

TEST(Segment, records_of_different_segments_have_different_keys) {
  EXPECT_NE(segment_key(key_of(1), 1), segment_key(key_of(1), 2));
  EXPECT_NE(segment_key(key_of(1), 1), segment_key(key_of(2), 1));
  EXPECT_NE(segment_key(key_of(1), 1), segment_key(key_of(1), 1u << 24));
}

TEST(Segment, only_its_own_names_are_segments) {
  EXPECT_EQ(parse_segment_name("0000000001.seg"), 1u);
  EXPECT_EQ(parse_segment_name("4294967295.seg"), 4294967295u);
  for (const char* name : {"0000000000.seg", "4294967296.seg", "1.seg", "00000000001.seg", "000000000x.seg",
                           "0000000001.tmp", "key", "reserve", ""})
    EXPECT_FALSE(parse_segment_name(name)) << name;
}

// Stores of version 1 exist: these bytes are what they hold.
TEST(Segment, the_bytes_of_version_1_never_change) {
  const SegmentHeader header{1, 0, 0, 0, 1, 0, key_of(5)};
  EXPECT_EQ(format_address(crypto::hash_object(encode_segment_header(header).bytes())),
            "b3:6b4a1f08276f52dbf4a4961bcb8342c57c7fb6aa73b7596d3fc73b7640ef4881");
  EXPECT_EQ(format_address(crypto::hash_object(encode_key_file(key_of(5)).bytes())),
            "b3:103657cde21502ef3d8ffbec89a1572f80d658e6a34fec5eaf00f75a8b76ba55");
  EXPECT_EQ(format_hex(encode_header(example(), as_bytes("hello"), segment_key(key_of(5), 1))),
            "636e72630301000005000000e80300002a0000000000000007000000000000002900000000000000"
            "0010000038851850e703273024a3ff9968d87db12419b8d3");
}

}  // namespace
}  // namespace cairn::store
