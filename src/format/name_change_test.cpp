#include "format/name_change.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "format/registry_field.h"
#include "format/sample_registry.h"
#include "format/signed_record.h"

namespace cairn::format {
namespace {

const crypto::Ed25519Key key = [] {
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{1});
  return crypto::Ed25519Key(seed);
}();
const Address address = *parse_address("b3:d4c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a526");

NameChange sample() { return {"docs/readme", address, 3, sample_time, "second edition", key.public_key()}; }
ErrorCode refusal(std::string_view record) {
  const auto decoded = decode_name_change(as_bytes(record));
  return decoded ? ErrorCode::ok : decoded.error().code;
}

}  // namespace

// Bytes and signature come from other programs (Python's cryptography, a small encoder).
TEST(NameChange, a_change_has_bytes_that_never_change) {
  const std::string golden =
      "a2637369675840d48bbf775890cb4b80eb50c74eccb212160ea93c189a7317609e24ff0906e19484caffb3a4cc195dff"
      "ebe63b258e2aa5ec5df5778113d46be73c332580fe000364626f6479588da66261741b0000019b76daa800636b657958"
      "208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c646e616d656b646f63732f72656164"
      "6d65646e6f74656e7365636f6e642065646974696f6e686d616e69666573745820d4c011a0d6bdb33ed9a6b5724a4aff"
      "3f75c74830cf82db9be05994b1d4e0a5266873657175656e636503";
  const std::string record = sign_name_change(sample(), key).value();
  EXPECT_EQ(format_hex(as_bytes(record)), golden);
  EXPECT_EQ(decode_name_change(as_bytes(record)).value(), sample());
}

TEST(NameChange, a_removal_names_no_object) {
  const std::string golden =
      "a2637369675840cc3d569083f7a8441d5ebca25423424a3efb0ca1c7d65fdc0d13b7d47cc61b0a5cb6a6f974e5936596"
      "7f61317181ad94a969140c5d23d8d59517064b1b966a0464626f6479584ea46261741b0000019b76daa800636b657958"
      "208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c646e616d656b646f63732f72656164"
      "6d656873657175656e636504";
  const NameChange removal{"docs/readme", {}, 4, sample_time, "", key.public_key()};
  const std::string record = sign_name_change(removal, key).value();
  EXPECT_EQ(format_hex(as_bytes(record)), golden);
  EXPECT_EQ(decode_name_change(as_bytes(record)).value(), removal);
}

TEST(NameChange, the_largest_change_fits) {
  NameChange change = sample();
  change.name.assign(name_size_max, 'n');
  change.note.assign(note_size_max, 'n');
  change.sequence = ~std::uint64_t{0};
  change.at = registry_time_max;
  const std::string record = sign_name_change(change, key).value();
  EXPECT_LE(record.size(), name_change_size_max);
  EXPECT_EQ(decode_name_change(as_bytes(record)).value(), change);
}

TEST(NameChange, what_breaks_an_invariant_is_not_signed) {
  const auto refused = [](auto spoil) {
    NameChange change = sample();
    spoil(change);
    return sign_name_change(change, key).error().code == ErrorCode::invalid;
  };
  EXPECT_TRUE(refused([](NameChange& change) { change.name = "Docs"; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.sequence = 0; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.note = "a\nb"; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.note.assign(note_size_max + 1, 'n'); }));
  EXPECT_TRUE(refused([](NameChange& change) { change.at = WallTime{-1}; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.at.ms = registry_time_max.ms + 1; }));
}

RC_GTEST_PROP(NameChange, no_byte_of_a_change_can_be_another, ()) {
  std::string record = sign_name_change(sample(), key).value();
  const auto at = *rc::gen::inRange<std::size_t>(0, record.size());
  record[at] = static_cast<char>(record[at] ^ *rc::gen::inRange(1, 256));
  RC_ASSERT(refusal(record) != ErrorCode::ok);
}

TEST(NameChange, the_signature_is_of_the_key_that_it_names_and_of_this_kind_of_record) {
  const std::string record = sign_name_change(sample(), key).value();
  const std::string body(as_text(split_record(as_bytes(record), name_change_size_max)->body));
  EXPECT_EQ(refusal(sign_record(name_change_tag, body, key)), ErrorCode::ok);
  EXPECT_EQ(refusal(sign_record(name_change_tag, body, sample_key(2))), ErrorCode::invalid_sig);
  EXPECT_EQ(refusal(sign_record("cairn-provider-record-v1", body, key)), ErrorCode::invalid_sig);
}

TEST(NameChange, a_part_and_more_than_a_record_are_malformed) {
  const std::string record = sign_name_change(sample(), key).value();
  for (std::size_t size = 0; size < record.size(); ++size)
    EXPECT_EQ(refusal(record.substr(0, size)), ErrorCode::malformed) << size;
  EXPECT_EQ(refusal(record + '\0'), ErrorCode::malformed);
  EXPECT_EQ(refusal(sign_record(name_change_tag, std::string(name_change_size_max, 'x'), key)),
            ErrorCode::malformed);
}

}  // namespace cairn::format
