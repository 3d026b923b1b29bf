#include "format/name_change.h"

#include <gtest/gtest.h>

#include "format/registry_field.h"
#include "format/sample_records.h"

namespace cairn::format {
// Bytes and signature come from other programs (Python's cryptography, a small encoder).
TEST(NameChange, a_change_has_bytes_that_never_change) {
  const std::string golden =
      "a2637369675840d48bbf775890cb4b80eb50c74eccb212160ea93c189a7317609e24ff0906e19484caffb3a4cc195dff"
      "ebe63b258e2aa5ec5df5778113d46be73c332580fe000364626f6479588da66261741b0000019b76daa800636b657958"
      "208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c646e616d656b646f63732f72656164"
      "6d65646e6f74656e7365636f6e642065646974696f6e686d616e69666573745820d4c011a0d6bdb33ed9a6b5724a4aff"
      "3f75c74830cf82db9be05994b1d4e0a5266873657175656e636503";
  const std::string record = sign_name_change(sample_change(), sample_record_key()).value();
  EXPECT_EQ(format_hex(as_bytes(record)), golden);
  EXPECT_EQ(decode_name_change(as_bytes(record)).value(), sample_change());
}

TEST(NameChange, a_removal_names_no_object) {
  const std::string golden =
      "a2637369675840cc3d569083f7a8441d5ebca25423424a3efb0ca1c7d65fdc0d13b7d47cc61b0a5cb6a6f974e5936596"
      "7f61317181ad94a969140c5d23d8d59517064b1b966a0464626f6479584ea46261741b0000019b76daa800636b657958"
      "208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c646e616d656b646f63732f72656164"
      "6d656873657175656e636504";
  const NameChange removal{"docs/readme", {}, 4, sample_time, "", sample_record_key().public_key()};
  const std::string record = sign_name_change(removal, sample_record_key()).value();
  EXPECT_EQ(format_hex(as_bytes(record)), golden);
  EXPECT_EQ(decode_name_change(as_bytes(record)).value(), removal);
}

TEST(NameChange, the_largest_change_fits) {
  NameChange change = sample_change();
  change.name.assign(name_size_max, 'n');
  change.note.assign(note_size_max, 'n');
  change.sequence = ~std::uint64_t{0};
  change.at = registry_time_max;
  const std::string record = sign_name_change(change, sample_record_key()).value();
  EXPECT_LE(record.size(), name_change_size_max);
  EXPECT_EQ(decode_name_change(as_bytes(record)).value(), change);
}

TEST(NameChange, what_breaks_an_invariant_is_not_signed) {
  const auto refused = [](auto spoil) {
    NameChange change = sample_change();
    spoil(change);
    return sign_name_change(change, sample_record_key()).error().code == ErrorCode::invalid;
  };
  EXPECT_TRUE(refused([](NameChange& change) { change.name = "Docs"; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.sequence = 0; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.note = "a\nb"; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.note.assign(note_size_max + 1, 'n'); }));
  EXPECT_TRUE(refused([](NameChange& change) { change.at = WallTime{-1}; }));
  EXPECT_TRUE(refused([](NameChange& change) { change.at.ms = registry_time_max.ms + 1; }));
}

}  // namespace cairn::format
