#include "codec/cbor.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>
#include <map>

namespace cairn::codec {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes(hex.size() / 2, '\0');
  EXPECT_TRUE(parse_hex_to(hex, std::as_writable_bytes(std::span(bytes)))) << hex;
  return bytes;
}

std::string encode(const std::function<void(CborEncoder&)>& write) {
  std::string out;
  CborEncoder encoder(out);
  write(encoder);
  encoder.finish();
  return out;
}

bool accepted(std::string_view bytes) {
  CborDecoder decoder(as_bytes(bytes));
  return decoder.skip() && decoder.finish();
}

struct Known {
  const char* hex;
  std::function<void(CborEncoder&)> write;
};

// Appendix A of RFC 8949, as far as it lies in the subset.
const Known known_answers[] = {
    {"00", [](auto& e) { e.write_uint(0); }},
    {"01", [](auto& e) { e.write_uint(1); }},
    {"0a", [](auto& e) { e.write_uint(10); }},
    {"17", [](auto& e) { e.write_uint(23); }},
    {"1818", [](auto& e) { e.write_uint(24); }},
    {"1819", [](auto& e) { e.write_uint(25); }},
    {"1864", [](auto& e) { e.write_uint(100); }},
    {"1903e8", [](auto& e) { e.write_uint(1000); }},
    {"1a000f4240", [](auto& e) { e.write_uint(1'000'000); }},
    {"1b000000e8d4a51000", [](auto& e) { e.write_uint(1'000'000'000'000); }},
    {"1bffffffffffffffff", [](auto& e) { e.write_uint(18446744073709551615u); }},
    {"3bffffffffffffffff", [](auto& e) { e.write_negative(18446744073709551615u); }},
    {"20", [](auto& e) { e.write_int(-1); }},
    {"29", [](auto& e) { e.write_int(-10); }},
    {"3863", [](auto& e) { e.write_int(-100); }},
    {"3903e7", [](auto& e) { e.write_int(-1000); }},
    {"f4", [](auto& e) { e.write_bool(false); }},
    {"f5", [](auto& e) { e.write_bool(true); }},
    {"f6", [](auto& e) { e.write_null(); }},
    {"40", [](auto& e) { e.write_bytes({}); }},
    {"4401020304", [](auto& e) { e.write_bytes(as_bytes("\x01\x02\x03\x04")); }},
    {"60", [](auto& e) { e.write_text(""); }},
    {"6161", [](auto& e) { e.write_text("a"); }},
    {"6449455446", [](auto& e) { e.write_text("IETF"); }},
    {"62225c", [](auto& e) { e.write_text("\"\\"); }},
    {"62c3bc", [](auto& e) { e.write_text("\xC3\xBC"); }},
    {"63e6b0b4", [](auto& e) { e.write_text("\xE6\xB0\xB4"); }},
    {"64f0908591", [](auto& e) { e.write_text("\xF0\x90\x85\x91"); }},
    {"80", [](auto& e) { e.write_array(0); }},
    {"83010203",
     [](auto& e) {
       e.write_array(3);
       for (unsigned i : {1u, 2u, 3u}) e.write_uint(i);
     }},
    {"8301820203820405",
     [](auto& e) {
       e.write_array(3);
       e.write_uint(1);
       e.write_array(2);
       e.write_uint(2);
       e.write_uint(3);
       e.write_array(2);
       e.write_uint(4);
       e.write_uint(5);
     }},
    {"98190102030405060708090a0b0c0d0e0f101112131415161718181819",
     [](auto& e) {
       e.write_array(25);
       for (unsigned i = 1; i <= 25; ++i) e.write_uint(i);
     }},
    {"a0", [](auto& e) { e.write_map(0); }},
    {"a201020304",
     [](auto& e) {
       e.write_map(2);
       for (unsigned i : {1u, 2u, 3u, 4u}) e.write_uint(i);
     }},
    {"a26161016162820203",
     [](auto& e) {
       e.write_map(2);
       e.write_text("a");
       e.write_uint(1);
       e.write_text("b");
       e.write_array(2);
       e.write_uint(2);
       e.write_uint(3);
     }},
    {"826161a161626163",
     [](auto& e) {
       e.write_array(2);
       e.write_text("a");
       e.write_map(1);
       e.write_text("b");
       e.write_text("c");
     }},
    {"a56161614161626142616361436164614461656145",
     [](auto& e) {
       e.write_map(5);
       for (const char* text : {"a", "A", "b", "B", "c", "C", "d", "D", "e", "E"}) e.write_text(text);
     }},
};

}  // namespace

TEST(Cbor, known_answers_of_the_rfc) {
  for (const Known& known : known_answers) {
    EXPECT_EQ(format_hex(as_bytes(encode(known.write))), known.hex);
    EXPECT_TRUE(accepted(from_hex(known.hex))) << known.hex;
  }
}

TEST(Cbor, what_the_rfc_allows_but_the_subset_does_not_is_refused) {
  for (const char* hex : {
           "c249010000000000000000",                        // bignum
           "c074323031332d30332d32315432303a30343a30305a",  // tag
           "f90000",
           "f93c00",
           "fa47c35000",
           "fb3ff199999999999a",  // floats
           "f7",
           "f0",
           "f818",
           "f8ff",
           "e0",  // simple values
           "5f42010243030405ff",
           "7f657374726561646d696e67ff",  // indefinite lengths
           "9fff",
           "9f018202039f0405ffff",
           "bfff",
           "bf61610161629f0203ffff",
           "ff",
       })
    EXPECT_FALSE(accepted(from_hex(hex))) << hex;
}

TEST(Cbor, heads_that_are_not_the_shortest_are_refused) {
  for (const char* hex :
       {"1800", "1817", "190017", "1900ff", "1a0000ffff", "1b00000000ffffffff", "3800", "3900ff", "5800",
        "580161", "7800", "780161", "9800", "980100", "b800", "b8010000", "f814", "f815", "f816"})
    EXPECT_FALSE(accepted(from_hex(hex))) << hex;
  for (const char* hex :
       {"1818", "18ff", "190100", "19ffff", "1a00010000", "1affffffff", "1b0000000100000000"})
    EXPECT_TRUE(accepted(from_hex(hex))) << hex;
}

TEST(Cbor, reserved_heads_are_refused) {
  for (unsigned major = 0; major < 8; ++major)
    for (unsigned info = 28; info < 32; ++info)
      EXPECT_FALSE(accepted(std::string(1, static_cast<char>(major << 5 | info)) + std::string(16, '\0')));
}

TEST(Cbor, every_cut_of_an_item_is_refused) {
  for (const Known& known : known_answers) {
    std::string bytes = from_hex(known.hex);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(accepted(bytes.substr(0, size))) << known.hex;
  }
}

TEST(Cbor, bytes_after_the_item_are_refused) {
  for (const Known& known : known_answers) EXPECT_FALSE(accepted(from_hex(known.hex) + '\0')) << known.hex;
}

TEST(Cbor, duplicate_and_misordered_keys_are_refused) {
  EXPECT_TRUE(accepted(from_hex("a301002000616100")));  // 1, -1, "a"
  EXPECT_TRUE(accepted(from_hex("a2617a0062616100")));  // "z" before "aa": the shorter first
  EXPECT_FALSE(accepted(from_hex("a262616100617a00")));
  EXPECT_FALSE(accepted(from_hex("a201000100")));
  EXPECT_FALSE(accepted(from_hex("a202000100")));
  EXPECT_FALSE(accepted(from_hex("a220000100")));
  EXPECT_FALSE(accepted(from_hex("a2616100616100")));
  EXPECT_FALSE(accepted(from_hex("81a2616200616100")));
  // Order is a matter of one map: an inner map neither sees nor disturbs the keys of the outer.
  EXPECT_TRUE(accepted(from_hex("a205a2010002000600")));
  EXPECT_FALSE(accepted(from_hex("a205a2010002000400")));
  EXPECT_TRUE(accepted(from_hex("82a10500a10100")));
}

TEST(Cbor, keys_are_integers_or_strings) {
  for (const char* hex : {"a1f400", "a1f600", "a18000", "a1a000", "a1810000"})
    EXPECT_FALSE(accepted(from_hex(hex))) << hex;
  EXPECT_TRUE(accepted(from_hex("a14000")));
}

TEST(Cbor, lengths_beyond_the_input_are_refused_before_anything_else) {
  for (const char* hex :
       {"42aa", "5bffffffffffffffff", "7bffffffffffffffff", "9bffffffffffffffff", "bbffffffffffffffff",
        "bb8000000000000000", "9a7fffffff00", "8200", "a100", "a2000000"})
    EXPECT_FALSE(accepted(from_hex(hex))) << hex;
  std::string huge = from_hex("9bffffffffffffffff");
  EXPECT_FALSE(CborDecoder(as_bytes(huge)).read_array());
}

TEST(Cbor, text_must_be_utf8) {
  for (const char* hex : {"61ff", "62c080", "63eda080", "62e282"})
    EXPECT_FALSE(accepted(from_hex(hex))) << hex;
  EXPECT_TRUE(accepted(from_hex("41ff")));
}

TEST(Cbor, depth_is_limited_to_32) {
  auto nested = [](std::size_t depth) { return std::string(depth - 1, '\x81') + '\x80'; };
  EXPECT_TRUE(accepted(nested(32)));
  EXPECT_FALSE(accepted(nested(33)));
  EXPECT_FALSE(accepted(std::string(100'000, '\x81')));
}

TEST(Cbor, a_layout_is_read_in_order) {
  std::string bytes = encode([](auto& e) {
    e.write_map(3);
    e.write_text("id");
    e.write_bytes(as_bytes("xyz"));
    e.write_text("list");
    e.write_array(2);
    e.write_int(-5);
    e.write_bool(true);
    e.write_text("other");
    e.write_null();
  });
  CborDecoder decoder(as_bytes(bytes));
  EXPECT_EQ(decoder.peek(), CborKind::map);
  EXPECT_EQ(decoder.read_map(), 3u);
  EXPECT_FALSE(decoder.expect_text("ix"));  // a refused read moves nothing
  EXPECT_FALSE(decoder.read_uint());
  EXPECT_TRUE(decoder.expect_text("id"));
  EXPECT_EQ(as_text(*decoder.read_bytes()), "xyz");
  EXPECT_EQ(decoder.read_text(), "list");
  EXPECT_EQ(decoder.read_array(), 2u);
  EXPECT_EQ(decoder.read_int(), -5);
  EXPECT_FALSE(decoder.finish());
  EXPECT_EQ(decoder.read_bool(), true);
  EXPECT_TRUE(decoder.expect_text("other"));
  EXPECT_TRUE(decoder.read_null());
  EXPECT_TRUE(decoder.finish());
  EXPECT_FALSE(decoder.peek());
}

TEST(Cbor, integers_beyond_int64_are_refused_by_read_int) {
  for (const char* hex : {"1b8000000000000000", "3b8000000000000000"}) {
    std::string bytes = from_hex(hex);
    EXPECT_FALSE(CborDecoder(as_bytes(bytes)).read_int()) << hex;
  }
  std::string least = from_hex("3b7fffffffffffffff");
  EXPECT_EQ(CborDecoder(as_bytes(least)).read_int(), std::numeric_limits<std::int64_t>::min());
}

using CborDeathTest = testing::Test;

TEST(CborDeathTest, an_encoder_that_breaks_the_rules_is_a_bug) {
  auto broken = [](const std::function<void(CborEncoder&)>& write) { EXPECT_DEATH(encode(write), "CHECK"); };
  broken([](auto&) {});
  broken([](auto& e) { e.write_array(1); });
  broken([](auto& e) { e.write_null(), e.write_null(); });
  broken([](auto& e) { e.write_map(2), e.write_text("b"), e.write_null(), e.write_text("a"); });
  broken([](auto& e) { e.write_map(2), e.write_text("b"), e.write_null(), e.write_text("b"); });
  broken([](auto& e) { e.write_map(1), e.write_bool(true); });
  broken([](auto& e) { e.write_map(1), e.write_array(0); });
  broken([](auto& e) { e.write_text("\xFF"); });
  broken([](auto& e) {
    for (int i = 0; i < 33; ++i) e.write_array(1);
  });
}

RC_GTEST_PROP(Cbor, integers_round_trip, (std::int64_t number)) {
  std::string bytes = encode([&](auto& e) { e.write_int(number); });
  auto read = CborDecoder(as_bytes(bytes)).read_int();
  RC_ASSERT(read.has_value() && *read == number);
}

RC_GTEST_PROP(Cbor, maps_in_key_order_round_trip, ()) {
  auto keys = *rc::gen::container<std::vector<std::string>>(
      rc::gen::container<std::string>(rc::gen::inRange<char>('a', 'e')));
  std::map<std::string, std::uint64_t, CborKeyOrder> map;
  for (const auto& key : keys) map.emplace(key, map.size());
  std::string bytes = encode([&](auto& e) {
    e.write_map(map.size());
    for (const auto& [key, value] : map) {
      e.write_text(key);
      e.write_uint(value);
    }
  });
  CborDecoder decoder(as_bytes(bytes));
  RC_ASSERT(*decoder.read_map() == map.size());
  for (const auto& [key, value] : map) {
    RC_ASSERT(*decoder.read_text() == key);
    RC_ASSERT(*decoder.read_uint() == value);
  }
  RC_ASSERT(decoder.finish().has_value());
}

}  // namespace cairn::codec
