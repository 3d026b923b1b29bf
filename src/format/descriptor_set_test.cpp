#include "format/descriptor_set.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "codec/base64.h"
#include "crypto/sample_key.h"
#include "format/sample_registry.h"

namespace cairn::format {
namespace {

std::string bytes_of(std::string_view hex) {
  std::string bytes(hex.size() / 2, '\0');
  CHECK(parse_hex_to(hex, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

// A key that is not another signer's.
std::string key_json(char which) {
  return codec::encode_base64(sample_key(static_cast<unsigned char>(which)).public_key());
}

std::string signer_json(std::string_view id, char key, std::string_view algo = "ed25519") {
  return R"({"id":")" + std::string(id) + R"(","algo":")" + std::string(algo) + R"(","key":")" +
         key_json(key) + R"("})";
}
std::string signer_set_json(std::string_view m, std::string_view signers) {
  return R"({"type":"signer_set","m":)" + std::string(m) + R"(,"signers":[)" + std::string(signers) + "]}";
}
std::string authority_json(std::string_view prefix, char key) {
  return R"({"type":"name_authority","prefix":")" + std::string(prefix) + R"(","key":")" + key_json(key) +
         R"("})";
}
const std::string good_signers = signer_set_json("1", signer_json("a", 'A'));

std::string proposal_json(std::string_view items, std::string_view more = "") {
  return R"({"schema_version":"1.0.0","items":[)" + std::string(items) + "]" + std::string(more) + "}";
}

// Why a proposal with these items (beside a good signer_set) is refused; empty when it is accepted.
std::string refusal(const std::string& body) {
  std::string detail;
  const auto draft = parse_proposal_json(body, detail);
  if (draft) return "";
  EXPECT_EQ(draft.error().code, ErrorCode::malformed);
  EXPECT_EQ(draft.error().side, Side::client);
  return detail;
}
std::string refusal_of_item(std::string_view item) {
  return refusal(proposal_json(good_signers + "," + std::string(item)));
}

// Why CBOR is refused that says the same.
std::string cbor_refusal(const std::string& item) {
  const auto valid = validate_item(as_bytes(item));
  if (valid) return "";
  EXPECT_EQ(valid.error().code, ErrorCode::malformed);
  EXPECT_EQ(valid.error().side, Side::client);
  return valid.error().context;
}

const std::vector<std::string> whole_items = {
    R"({"type":"node","id":"n1","addr":"10.0.0.1:7000","region":"eu","roles":["edge","store"],"weight":300,"keys":["AQI=",""]})",
    R"({"type":"service","id":"s1","kind":"storage","addr":"10.0.0.1:7001","region":"eu","node":"n1"})",
    R"({"type":"region","id":"eu","title":"Europa ü","parent":"world"})",
    R"({"type":"placement","id":"p1","regions":["eu","us"],"replicas":3,"data":6,"parity":18446744073709551615})",
    R"({"type":"revocation","key_id":"old","reason":"lost"})",
    R"({"type":"capability_key","id":"root-1","note":"of the first day"})",
    R"({"type":"name_authority","prefix":"docs/guide","key":")" + key_json('N') + R"("})",
};

// The bytes come from another encoder (and the hash from b3sum), not from this one.
TEST(DescriptorSet, a_small_set_has_bytes_that_never_change) {
  const std::string golden = bytes_of(
      "a6647072657658200000000000000000000000000000000000000000000000000000000000000000656974656d7384a3"
      "616d0164747970656a7369676e65725f736574677369676e65727381a462696463616461636b657958208a88e3dd7409"
      "f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c636f7267644e6f726464616c676f6765643235353139"
      "a7626964626e3164616464726d31302e302e302e313a37303030646b657973814201026474797065646e6f646565726f"
      "6c65738264656467656573746f726566726567696f6e6265756677656967687419012ca3626964626575647479706566"
      "726567696f6e657469746c65664575726f7061a364747970656a7265766f636174696f6e666b65795f6964636f6c6466"
      "726561736f6e646c6f7374666578706972791b0000019b76daabe86776657273696f6e006a637265617465645f61741b"
      "0000019b76daa8006e736368656d615f76657273696f6e65312e302e30");
  DescriptorSet set;
  set.created_at = sample_time;
  set.expiry = WallTime{sample_time.ms + 1000};
  const std::vector<Signer> signers{
      {"ada", "Nord", "ed25519",
       bytes_of("8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c")}};
  set.items = {
      encode_signer_set(1, signers).value(),
      sample_item(
          R"({"type":"node","id":"n1","addr":"10.0.0.1:7000","region":"eu","roles":["edge","store"],"weight":300,"keys":["AQI="]})"),
      sample_item(R"({"type":"region","id":"eu","title":"Europa"})"),
      sample_item(R"({"type":"revocation","key_id":"old","reason":"lost"})"),
  };
  EXPECT_EQ(format_hex(as_bytes(encode(set))), format_hex(as_bytes(golden)));
  const auto back = decode_descriptor_set(as_bytes(golden));
  ASSERT_TRUE(back) << back.error().context;
  EXPECT_EQ(*back, set);
  EXPECT_EQ(format_address(crypto::hash_object(as_bytes(golden))),
            "b3:d4c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a526");
  const auto governance = read_governance(set.items);
  ASSERT_TRUE(governance);
  EXPECT_EQ(*governance, (Governance{1, signers, {"old"}}));
}

TEST(DescriptorSet, json_names_every_field) {
  DescriptorSet set;
  set.version = 7;
  set.prev.bytes.fill(std::byte{0xAB});
  set.items = {sample_item(good_signers)};
  set.created_at = sample_time;
  set.expiry = WallTime{sample_time.ms + 1};
  set.supersede_of = 6;
  set.reason = "wrong";
  std::string text;
  codec::JsonWriter json(text);
  write_set_json(set, json);
  json.finish();
  std::string prev = "b3:";
  for (int i = 0; i < 32; ++i) prev += "ab";
  EXPECT_EQ(text, R"({"schema_version":"1.0.0","version":7,"prev":")" + prev +
                      R"(","items":[{"m":1,"type":"signer_set","signers":[{"id":"a","key":")" +
                      key_json('A') +
                      R"(","algo":"ed25519"}]}],"created_at":"2026-01-01T00:00:00Z",)"
                      R"("expiry":"2026-01-01T00:00:00.001Z","supersede_of":6,"reason":"wrong"})");
}

TEST(DescriptorItem, every_field_survives_json_and_cbor) {
  std::vector<std::string> all = whole_items;
  all.push_back(signer_set_json("2", R"({"id":"a","org":"Nord","algo":"other","key":"AQI="},)" +
                                         signer_json("b", 'A') + "," + signer_json("c", 'B')));
  for (const std::string& text : all) {
    const std::string item = sample_item(text);
    EXPECT_TRUE(validate_item(as_bytes(item))) << text;
    std::string again;
    codec::JsonWriter json(again);
    write_item_json(as_bytes(item), json);
    json.finish();
    EXPECT_EQ(sample_item(again), item) << text;
    // Nothing was lost: only the order of the fields may differ.
    std::string sorted = text, sorted_again = again;
    std::ranges::sort(sorted);
    std::ranges::sort(sorted_again);
    EXPECT_EQ(sorted, sorted_again);
  }
}

TEST(DescriptorItem, its_name_is_type_and_id) {
  const auto name = [](std::string_view json) {
    const std::string item = sample_item(json);
    const ItemName found = name_of_item(as_bytes(item));
    return std::string(found.type) + " " + std::string(found.id);
  };
  EXPECT_EQ(name(whole_items[0]), "node n1");
  EXPECT_EQ(name(whole_items[4]), "revocation old");
  EXPECT_EQ(name(whole_items[6]), "name_authority docs/guide");
  EXPECT_EQ(name(good_signers), "signer_set ");
  EXPECT_TRUE(name_of_item(as_bytes("\xA1\x64type")).type.empty());
  EXPECT_TRUE(name_of_item({}).type.empty());
}

// An item's CBOR without one of its fields.
std::string without_field(const std::string& item, std::string_view left_out) {
  codec::CborDecoder from(as_bytes(item));
  std::string out;
  codec::CborEncoder to(out);
  const std::size_t pairs = from.read_map().value();
  to.write_map(pairs - 1);
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::string_view key = from.read_text().value();
    const bool keep = key != left_out;
    if (keep) to.write_text(key);
    if (from.peek() == codec::CborKind::text) {
      const std::string_view text = from.read_text().value();
      if (keep) to.write_text(text);
    } else if (from.peek() == codec::CborKind::unsigned_integer) {
      const std::uint64_t number = from.read_uint().value();
      if (keep) to.write_uint(number);
    } else if (from.peek() == codec::CborKind::bytes) {
      const ByteView bytes = from.read_bytes().value();
      if (keep) to.write_bytes(bytes);
    } else {
      CHECK(from.skip());
      if (keep) to.write_array(0);
    }
  }
  to.finish();
  return out;
}

TEST(DescriptorItem, each_required_field_is_missed_by_its_name) {
  using Fields = std::vector<std::pair<std::string, std::string>>;
  const std::pair<std::string, Fields> items[] = {
      {"node", {{"id", "\"n\""}, {"addr", "\"a\""}, {"region", "\"r\""}, {"roles", "[]"}, {"weight", "1"}}},
      {"service", {{"id", "\"s\""}, {"kind", "\"k\""}, {"addr", "\"a\""}}},
      {"region", {{"id", "\"r\""}}},
      {"placement", {{"id", "\"p\""}, {"regions", "[]"}}},
      {"signer_set", {{"m", "1"}, {"signers", "[]"}}},
      {"revocation", {{"key_id", "\"k\""}, {"reason", "\"x\""}}},
      {"capability_key", {{"id", "\"c\""}}},
      {"name_authority", {{"prefix", "\"p\""}, {"key", '"' + key_json('N') + '"'}}},
  };
  for (const auto& [type, fields] : items) {
    const auto json_without = [&](std::string_view left_out) {
      std::string text = R"({"type":")" + type + "\"";
      for (const auto& [name, value] : fields)
        if (name != left_out) text += ",\"" + name + "\":" + value;
      return text + "}";
    };
    const std::string item = sample_item(json_without(""));
    for (const auto& field : fields) {
      EXPECT_EQ(refusal_of_item(json_without(field.first)),
                "$.items[1]." + field.first + ": required field is missing");
      EXPECT_EQ(cbor_refusal(without_field(item, field.first)), "the " + field.first + " of a " + type);
    }
    EXPECT_EQ(cbor_refusal(without_field(item, "type")), "the type of an item");
  }
  EXPECT_EQ(refusal_of_item(R"({"id":"r"})"), "$.items[1].type: required field is missing");
}

TEST(DescriptorItem, what_is_optional_may_be_absent) {
  for (const char* text :
       {R"({"type":"node","id":"n","addr":"a","region":"r","roles":[],"weight":0})",
        R"({"type":"service","id":"s","kind":"k","addr":"a"})", R"({"type":"region","id":"r"})",
        R"({"type":"placement","id":"p","regions":[]})", R"({"type":"capability_key","id":"c"})"}) {
    EXPECT_EQ(refusal_of_item(text), "") << text;
    EXPECT_EQ(cbor_refusal(sample_item(text)), "") << text;
  }
}

TEST(DescriptorItem, each_broken_field_is_refused_by_its_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"region","id":""})", "$.items[1].id: expected 1 to 128 characters of [A-Za-z0-9._:@/-]"},
      {R"({"type":"region","id":"a b"})", "$.items[1].id: expected 1 to 128 characters of [A-Za-z0-9._:@/-]"},
      {R"({"type":"region","id":"ü"})", "$.items[1].id: expected 1 to 128 characters of [A-Za-z0-9._:@/-]"},
      {R"({"type":"region","id":1})", "$.items[1].id: expected a string"},
      {R"({"type":"region","id":"r","title":""})",
       "$.items[1].title: expected 1 to 1024 bytes without control characters"},
      {R"({"type":"region","id":"r","title":"a\u0007"})",
       "$.items[1].title: expected 1 to 1024 bytes without control characters"},
      {R"({"type":"region","id":"r","title":"a\u007f"})",
       "$.items[1].title: expected 1 to 1024 bytes without control characters"},
      {R"({"type":"region","id":"r","title":"a\u0085"})",
       "$.items[1].title: expected 1 to 1024 bytes without control characters"},
      {R"({"type":"region","id":"r","title":null})", "$.items[1].title: expected a string"},
      {R"({"type":"region","id":"r","colour":"red"})", "$.items[1].colour: unknown field"},
      {R"({"type":"planet","id":"r"})", "$.items[1].type: no type of item has this name"},
      {R"({"type":7,"id":"r"})", "$.items[1].type: expected a string"},
      {R"(["type"])", "$.items[1]: expected an object"},
      {R"({"type":"node","id":"n","addr":"a","region":"r","roles":"x","weight":1})",
       "$.items[1].roles: expected an array"},
      {R"({"type":"node","id":"n","addr":"a","region":"r","roles":["x",""],"weight":1})",
       "$.items[1].roles[1]: expected 1 to 1024 bytes without control characters"},
      {R"({"type":"node","id":"n","addr":"a","region":"r","roles":[],"weight":-1})",
       "$.items[1].weight: out of range"},
      {R"({"type":"node","id":"n","addr":"a","region":"r","roles":[],"weight":1.5})",
       "$.items[1].weight: expected an integer"},
      {R"({"type":"node","id":"n","addr":"a","region":"r","roles":[],"weight":1,"keys":["AQI"]})",
       "$.items[1].keys[0]: expected base64"},
      {R"({"type":"name_authority","prefix":"Docs","key":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="})",
       "$.items[1].prefix: expected a name: segments of [a-z0-9._-] between single slashes"},
      {R"({"type":"name_authority","prefix":"docs/","key":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="})",
       "$.items[1].prefix: expected a name: segments of [a-z0-9._-] between single slashes"},
      {R"({"type":"name_authority","prefix":"","key":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="})",
       "$.items[1].prefix: expected a name: segments of [a-z0-9._-] between single slashes"},
      {R"({"type":"name_authority","prefix":"docs/..","key":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="})",
       "$.items[1].prefix: expected a name: segments of [a-z0-9._-] between single slashes"},
      {R"({"type":"name_authority","prefix":["docs"],"key":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="})",
       "$.items[1].prefix: expected a string"},
      {R"({"type":"name_authority","prefix":"docs","key":"AQI="})",
       "$.items[1].key: expected base64 of the 32 bytes of an Ed25519 key"},
      {R"({"type":"name_authority","prefix":"docs","key":"AQI"})", "$.items[1].key: expected base64"},
      {R"({"type":"name_authority","prefix":"docs","key":"AQI=","id":"d"})", "$.items[1].id: unknown field"},
  };
  for (const auto& [text, why] : cases) EXPECT_EQ(refusal_of_item(text), why) << text;
  const std::string longest_id(128, 'x'), longest_text(1024, 'x');
  EXPECT_EQ(
      refusal_of_item(R"({"type":"region","id":")" + longest_id + R"(","title":")" + longest_text + "\"}"),
      "");
  EXPECT_NE(refusal_of_item(R"({"type":"region","id":")" + longest_id + "x\"}"), "");
  EXPECT_NE(refusal_of_item(R"({"type":"region","id":"r","title":")" + longest_text + "x\"}"), "");
}

TEST(DescriptorItem, cbor_is_held_to_the_same_rules) {
  const auto region = [](auto write_id, auto write_title) {
    std::string item;
    codec::CborEncoder cbor(item);
    cbor.write_map(3);
    cbor.write_text("id");
    write_id(cbor);
    cbor.write_text("type");
    cbor.write_text("region");
    cbor.write_text("title");
    write_title(cbor);
    cbor.finish();
    return item;
  };
  const auto text = [](std::string_view content) {
    return [content](codec::CborEncoder& cbor) { cbor.write_text(content); };
  };
  const auto number = [](codec::CborEncoder& cbor) { cbor.write_uint(1); };
  EXPECT_EQ(cbor_refusal(region(text("eu"), text("Europa"))), "");
  EXPECT_EQ(cbor_refusal(region(text(""), text("Europa"))), "the id of a region");
  EXPECT_EQ(cbor_refusal(region(text("e u"), text("Europa"))), "the id of a region");
  EXPECT_EQ(cbor_refusal(region(number, text("Europa"))), "the id of a region");
  EXPECT_EQ(cbor_refusal(region(text("eu"), text(""))), "the title of a region");
  EXPECT_EQ(cbor_refusal(region(text("eu"), text("a\nb"))), "the title of a region");
  EXPECT_EQ(cbor_refusal(region(text("eu"), number)), "the title of a region");
  EXPECT_EQ(cbor_refusal(bytes_of("a2626964626575647479706566726567696f6e") + "x"),
            "CBOR: bytes after the item");
  EXPECT_EQ(cbor_refusal(bytes_of("a3626964626575647479706566726567696f6e617a01")),
            "an unknown field of an item");
  EXPECT_EQ(cbor_refusal(bytes_of("a3626964626575647479706566726567696f6e657a7a7a7a7a01")),
            "an unknown field of an item");
  EXPECT_EQ(cbor_refusal(bytes_of("80")), "an item or a signer is not a map");
  EXPECT_EQ(cbor_refusal(""), "an item or a signer is not a map");
}

TEST(DescriptorSet, a_name_appears_once) {
  EXPECT_EQ(refusal_of_item(R"({"type":"region","id":"a"},{"type":"region","id":"a","title":"x"})"),
            "$.items: two items have the same type and id");
  EXPECT_EQ(refusal_of_item(R"({"type":"revocation","key_id":"k","reason":"x"},)"
                            R"({"type":"revocation","key_id":"k","reason":"y"})"),
            "$.items: two items have the same type and id");
  EXPECT_EQ(refusal_of_item(R"({"type":"region","id":"a"},{"type":"capability_key","id":"a"})"), "");
  EXPECT_EQ(refusal_of_item(authority_json("a", 'N') + "," + authority_json("a", 'M')),
            "$.items: two items have the same type and id");
  EXPECT_EQ(refusal_of_item(authority_json("a", 'N') + "," + authority_json("a/b", 'N') +
                            R"(,{"type":"region","id":"a"})"),
            "");
}

TEST(DescriptorItem, a_prefix_is_a_name_of_any_length_that_names_have) {
  const std::string longest(255, 'n');
  EXPECT_EQ(refusal_of_item(authority_json(longest, 'N')), "");
  EXPECT_NE(refusal_of_item(authority_json(longest + "n", 'N')), "");
  const std::string item = sample_item(authority_json("docs/guide", 'N'));
  std::string upper = item, lower_slash = item, short_key = item;
  upper.replace(upper.find("guide"), 5, "Guide");
  EXPECT_EQ(cbor_refusal(upper), "the prefix of a name_authority");
  lower_slash.replace(lower_slash.find("docs/guide"), 10, "docs//uide");
  EXPECT_EQ(cbor_refusal(lower_slash), "the prefix of a name_authority");
  short_key.replace(short_key.find("\x58\x20"), 3, "\x58\x1F");
  EXPECT_EQ(cbor_refusal(short_key), "the key of a name_authority");
}

// The bytes come from another encoder, not from this one.
TEST(DescriptorItem, a_name_authority_has_bytes_that_never_change) {
  const std::string golden = bytes_of(
      "a3636b657958208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c64747970656e6e616d655f61"
      "75"
      "74686f72697479667072656669786a646f63732f6775696465");
  EXPECT_EQ(
      sample_item(
          R"({"type":"name_authority","prefix":"docs/guide","key":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="})"),
      golden);
  EXPECT_EQ(cbor_refusal(golden), "");
}

TEST(DescriptorSet, exactly_one_signer_set_that_can_be_followed) {
  const auto set = [](std::string_view m, const std::string& signers, const std::string& more = "") {
    return refusal(proposal_json(signer_set_json(m, signers) + more));
  };
  const std::string two = signer_json("a", 'A') + "," + signer_json("b", 'B');
  const std::string revoke_a = R"(,{"type":"revocation","key_id":"a","reason":"lost"})";
  EXPECT_EQ(refusal(proposal_json("")), "$.items: the set has no signer_set");
  EXPECT_EQ(refusal_of_item(good_signers), "$.items: the set has more than one signer_set");
  EXPECT_EQ(set("2", two), "");
  EXPECT_EQ(set("1", ""), "$.items: a signer_set has 1 to 64 signers");
  EXPECT_EQ(set("0", two), "$.items: the m of the signer_set is 0");
  EXPECT_EQ(set("3", two), "$.items: the m of the signer_set is more than the signers in force");
  EXPECT_EQ(set("4294967297", two), "$.items: the m of the signer_set");
  EXPECT_EQ(set("2", two, revoke_a), "$.items: the m of the signer_set is more than the signers in force");
  EXPECT_EQ(set("1", two, revoke_a), "");
  EXPECT_EQ(set("2", signer_json("a", 'A') + "," + signer_json("b", 'B', "ml-dsa-65")),
            "$.items: the m of the signer_set is more than the signers in force");
  EXPECT_EQ(set("1", signer_json("a", 'A') + "," + signer_json("b", 'B', "ml-dsa-65")), "");
  EXPECT_EQ(set("1", signer_json("a", 'A') + "," + signer_json("a", 'B')),
            "$.items: two signers have the same id");
  EXPECT_EQ(set("1", signer_json("a", 'A') + "," + signer_json("b", 'A')),
            "$.items: two signers have the same key");
  EXPECT_EQ(set("1", R"({"id":"a","algo":"ed25519","key":"AQI="})"),
            "$.items: an ed25519 key of a signer has not 32 bytes");
  EXPECT_EQ(set("1", R"({"id":"a","algo":"ed25519","key":"AQI=","kay":1})"),
            "$.items[0].signers[0].kay: unknown field");
  EXPECT_EQ(set("1", R"({"id":"a","key":"AQI="})"), "$.items[0].signers[0].algo: required field is missing");

  std::vector<unsigned> numbers;
  for (unsigned i = 0; i < 64; ++i) numbers.push_back(i);
  EXPECT_TRUE(check_items({sample_signer_set(64, numbers)}));
  numbers.push_back(64);
  EXPECT_FALSE(check_items({sample_signer_set(1, numbers)}));
}

TEST(DescriptorSet, a_key_that_no_signature_verifies_under_is_no_signers) {
  const std::string why = "$.items: an ed25519 key of a signer is one that no signature verifies under";
  for (const char* hex : crypto::sample_unusable_keys) {
    const std::string bad = bytes_of(hex);
    const std::string signer =
        R"({"id":"z","algo":"ed25519","key":")" + codec::encode_base64(as_bytes(bad)) + R"("})";
    EXPECT_EQ(refusal(proposal_json(signer_set_json("1", signer))), why) << hex;
    // Neither beside enough good ones: whoever counts on it would count wrong.
    EXPECT_EQ(refusal(proposal_json(signer_set_json("1", signer_json("a", 'A') + "," + signer))), why) << hex;
    const std::string item = sample_item(signer_set_json("1", signer_json("a", 'A') + "," + signer));
    ProposalDraft draft;
    draft.items = {item};
    EXPECT_FALSE(decode_proposal_cbor(as_bytes(encode(draft)))) << hex;
    // What was committed before this was asked can still be read.
    DescriptorSet set;
    set.items = {item};
    EXPECT_TRUE(decode_descriptor_set(as_bytes(encode(set)))) << hex;
    // Of another algo it is only bytes.
    EXPECT_EQ(refusal(proposal_json(signer_set_json("1", signer_json("a", 'A') +
                                                             R"(,{"id":"z","algo":"other","key":")" +
                                                             codec::encode_base64(as_bytes(bad)) + R"("})"))),
              "");
  }
}

TEST(DescriptorSet, a_key_that_no_signature_verifies_under_has_no_names) {
  for (const char* hex : crypto::sample_unusable_keys) {
    const std::string item = R"({"type":"name_authority","prefix":"docs","key":")" +
                             codec::encode_base64(as_bytes(bytes_of(hex))) + R"("})";
    EXPECT_EQ(refusal_of_item(item),
              "$.items: the key of a name_authority is one that no signature verifies under")
        << hex;
    GoodKeys known;
    const ProposalDraft draft{.items = {sample_item(good_signers), sample_item(item)}};
    EXPECT_FALSE(decode_proposal_cbor(as_bytes(encode(draft)), &known)) << hex;
    EXPECT_TRUE(check_items(draft.items)) << hex;
  }
}

TEST(DescriptorSet, at_most_256_keys_have_names_however_many_names_each) {
  std::vector<std::string> items{sample_item(good_signers)};
  const auto add = [&](const std::string& prefix, unsigned number) {
    items.push_back(sample_item(R"({"type":"name_authority","prefix":")" + prefix + R"(","key":")" +
                                codec::encode_base64(sample_key(number).public_key()) + R"("})"));
  };
  for (unsigned i = 0; i < authority_keys_max; ++i) {
    add("a" + std::to_string(i), i);
    add("b" + std::to_string(i), i);
  }
  GoodKeys known;
  EXPECT_TRUE(check_next_items(items));
  EXPECT_TRUE(check_next_items(items, &known));
  EXPECT_TRUE(check_next_items(items, &known));
  add("c", authority_keys_max);
  const auto refused = check_next_items(items, &known);
  ASSERT_FALSE(refused);
  EXPECT_STREQ(refused.error().context, "the items name_authority have more than 256 different keys");
  EXPECT_TRUE(check_items(items));
}

TEST(DescriptorSet, fields_of_a_proposal_are_held_to_their_rules) {
  EXPECT_EQ(refusal("[]"), "$: expected an object");
  EXPECT_EQ(refusal(R"({"items":[]})"), "$.schema_version: required field is missing");
  EXPECT_EQ(refusal(R"({"schema_version":"1.0.1","items":[]})"), "$.schema_version: expected 1.0.0");
  EXPECT_EQ(refusal(R"({"schema_version":"1.0.0"})"), "$.items: required field is missing");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"version":1)")), "$.version: unknown field");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"expiry":"tomorrow")")),
            "$.expiry: expected an RFC 3339 time of 1970 or later");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"expiry":"1969-12-31T23:59:59Z")")),
            "$.expiry: expected an RFC 3339 time of 1970 or later");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"supersede_of":1)")),
            "$.reason: there exactly with supersede_of");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"reason":"x")")),
            "$.reason: there exactly with supersede_of");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"supersede_of":-1,"reason":"x")")),
            "$.supersede_of: out of range");
  EXPECT_EQ(refusal(proposal_json(good_signers, R"(,"supersede_of":1,"reason":"")")),
            "$.reason: expected 1 to 1024 bytes without control characters");
  EXPECT_EQ(refusal(proposal_json(good_signers,
                                  R"(,"expiry":"2026-01-01T00:00:00Z","supersede_of":1,"reason":"x")")),
            "");
}

TEST(DescriptorSet, a_proposal_says_the_same_in_json_and_cbor) {
  std::string items = good_signers;
  for (const std::string& item : whole_items) items += "," + item;
  std::string detail;
  const auto draft = parse_proposal_json(
      proposal_json(items, R"(,"expiry":"2026-01-01T00:00:00Z","supersede_of":1,"reason":"x")"), detail);
  ASSERT_TRUE(draft) << detail;
  EXPECT_EQ(draft->items.size(), 8u);
  EXPECT_EQ(draft->expiry, sample_time);
  const auto by_cbor = decode_proposal_cbor(as_bytes(encode(*draft)));
  ASSERT_TRUE(by_cbor) << by_cbor.error().context;
  EXPECT_EQ(*by_cbor, *draft);
  std::string text;
  codec::JsonWriter json(text);
  write_proposal_json(*draft, json);
  json.finish();
  EXPECT_EQ(parse_proposal_json(text, detail).value(), *draft);
  // A set is no proposal: what the server adds cannot be asked for.
  DescriptorSet set;
  set.items = draft->items;
  const auto refused = decode_proposal_cbor(as_bytes(encode(set)));
  ASSERT_FALSE(refused);
  EXPECT_STREQ(refused.error().context, "an unknown field of the set");
}

TEST(DescriptorSet, fields_of_a_set_are_held_to_their_rules) {
  const auto refused = [](auto change) -> std::string {
    DescriptorSet set;
    set.version = 3;
    set.prev.bytes.fill(std::byte{1});
    set.items = {sample_item(good_signers)};
    set.created_at = sample_time;
    change(set);
    const auto back = decode_descriptor_set(as_bytes(encode(set)));
    if (back) {
      EXPECT_EQ(*back, set);
      return "";
    }
    EXPECT_EQ(back.error().code, ErrorCode::malformed);
    return back.error().context;
  };
  EXPECT_EQ(refused([](DescriptorSet&) {}), "");
  EXPECT_EQ(refused([](DescriptorSet& set) { set.items.clear(); }), "the set has no signer_set");
  EXPECT_EQ(refused([](DescriptorSet& set) { set.version = 0; }), "the prev of the set");
  EXPECT_EQ(refused([](DescriptorSet& set) { set.reason = "x"; }),
            "reason and supersede_of of the set go together");
  EXPECT_EQ(refused([](DescriptorSet& set) { set.supersede_of = 2; }),
            "reason and supersede_of of the set go together");
  for (const std::uint64_t version : {1u, 3u, 4u})
    EXPECT_EQ(refused([&](DescriptorSet& set) {
                set.supersede_of = version;
                set.reason = "x";
              }),
              "the supersede_of of the set");
  EXPECT_EQ(refused([](DescriptorSet& set) {
              set.supersede_of = 2;
              set.reason = "x";
            }),
            "");
  EXPECT_EQ(refused([](DescriptorSet& set) {
              set.supersede_of = 2;
              set.reason = "a\nb";
            }),
            "the reason of the set");
}

TEST(DescriptorSet, missing_unknown_and_wrong_fields_of_cbor_are_named) {
  const std::string signers = sample_item(good_signers);
  // Fields as bytes, so that any can be left out or be wrong.
  std::vector<std::pair<std::string, std::string>> fields;
  const auto text = [](std::string_view content) {
    std::string out;
    codec::CborEncoder(out).write_text(content);
    return out;
  };
  fields.emplace_back("prev", "\x58\x20" + std::string(32, '\0'));
  fields.emplace_back("items", "\x81" + signers);
  fields.emplace_back("version", std::string(1, '\0'));
  fields.emplace_back("created_at", "\x01");
  fields.emplace_back("schema_version", text("1.0.0"));
  const auto refused = [&](const auto& pairs) -> std::string {
    std::string bytes(1, static_cast<char>(0xA0 | pairs.size()));
    for (const auto& [key, value] : pairs) bytes += text(key) + value;
    const auto set = decode_descriptor_set(as_bytes(bytes));
    return set ? "" : set.error().context;
  };
  EXPECT_EQ(refused(fields), "");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string context = "the " + fields[i].first + " of the set";
    auto without = fields;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(refused(without), context);
    auto wrong = fields;
    wrong[i].second = "\xF6";  // null
    EXPECT_EQ(refused(wrong), context);
  }
  auto unknown = fields;
  unknown.emplace_back("schema_versions", "\x01");
  EXPECT_EQ(refused(unknown), "an unknown field of the set");
  auto late = fields;
  late[3].second = bytes_of("1b0000e677d21fdc00");  // the first millisecond of the year 10000
  EXPECT_EQ(refused(late), "the created_at of the set");
  late[3].second = bytes_of("1b0000e677d21fdbff");
  EXPECT_EQ(refused(late), "");
  auto short_prev = fields;
  short_prev[0].second = "\x58\x1F" + std::string(31, '\0');
  EXPECT_EQ(refused(short_prev), "the prev of the set");
}

TEST(DescriptorSet, a_flipped_bit_never_decodes_to_the_same_set) {
  const SampleRegistry registry(2, {1, 2, 3}, {sample_item(whole_items[0]), sample_item(whole_items[3])});
  const std::string& payload = registry.versions[0].payload;
  const DescriptorSet set = decode_descriptor_set(as_bytes(payload)).value();
  for (std::size_t bit = 0; bit < payload.size() * 8; ++bit) {
    std::string flipped = payload;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto other = decode_descriptor_set(as_bytes(flipped));
    if (!other) continue;
    EXPECT_NE(*other, set) << bit;
    EXPECT_EQ(encode(*other), flipped) << bit;
  }
}

TEST(DescriptorSet, at_most_65536_items) {
  const std::string region = sample_item(R"({"type":"region","id":"r00000"})");
  std::vector<std::string> items{sample_item(good_signers)};
  for (std::size_t i = 1; i < set_items_max; ++i) {
    items.push_back(region);
    const std::string number = std::to_string(i);
    items.back().replace(items.back().find("r00000") + 6 - number.size(), number.size(), number);
  }
  EXPECT_TRUE(check_items(items));
  DescriptorSet set;
  set.items = items;
  EXPECT_TRUE(decode_descriptor_set(as_bytes(encode(set))));
  set.items.push_back(region);
  EXPECT_FALSE(check_items(set.items));
  EXPECT_FALSE(decode_descriptor_set(as_bytes(encode(set))));
}

RC_GTEST_PROP(DescriptorSet, what_was_encoded_decodes_to_the_same, ()) {
  DescriptorSet set;
  set.version = *rc::gen::arbitrary<std::uint64_t>();
  if (set.version != 0) set.prev.bytes.fill(std::byte{*rc::gen::arbitrary<unsigned char>()});
  set.created_at.ms = *rc::gen::inRange<std::int64_t>(0, 253'402'300'799'999);
  if (*rc::gen::arbitrary<bool>())
    set.expiry = WallTime{*rc::gen::inRange<std::int64_t>(0, 253'402'300'799'999)};
  if (set.version != 0 && *rc::gen::arbitrary<bool>()) {
    set.supersede_of = set.version - 1;
    set.reason = "because";
  }
  const auto n = *rc::gen::inRange<unsigned>(1, 9);
  std::vector<unsigned> numbers;
  for (unsigned i = 0; i < n; ++i) numbers.push_back(i);
  set.items.push_back(sample_signer_set(*rc::gen::inRange<unsigned>(1, n + 1), numbers));
  for (const std::string& text : whole_items)
    if (*rc::gen::arbitrary<bool>()) set.items.push_back(sample_item(text));
  const std::string bytes = encode(set);
  const auto back = decode_descriptor_set(as_bytes(bytes));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == set);
}

}  // namespace
}  // namespace cairn::format
