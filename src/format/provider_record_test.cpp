#include "format/provider_record.h"

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

Endpoint endpoint(std::string_view ip, std::uint16_t port, bool tls) {
  Endpoint made{.port = port, .tls = tls};
  CHECK(parse_hex_to(ip, made.ip));
  return made;
}
ProviderRecord sample() {
  return {*parse_address("b3:d4c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a526"),
          key.public_key(),
          {endpoint("00000000000000000000ffffc0000201", 7400, false),
           endpoint("20010db8000000000000000000000001", 7443, true)},
          7,
          WallTime{sample_time.ms + 600'000}};
}
ErrorCode refusal(std::string_view record) {
  const auto decoded = decode_provider_record(as_bytes(record));
  return decoded ? ErrorCode::ok : decoded.error().code;
}

}  // namespace

// Bytes and signature come from other programs (Python's cryptography, a small encoder).
TEST(ProviderRecord, a_record_has_bytes_that_never_change) {
  const std::string golden =
      "a263736967584075538c9e88bd4941627f860ba12731cc2faa0fbb213f7b19f3ae2269f2f7aac1d67077eef3847fef2d"
      "d6e7746ec3ccec78db466948b05ae91b4bf0438eccee0c64626f647958a2a5636b657958208a88e3dd7409f195fd52db"
      "2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c666578706972791b0000019b76e3cfc067616464726573735820d4"
      "c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a5266873657175656e63650769656e64706f69"
      "6e747382835000000000000000000000ffffc0000201191ce8f4835020010db8000000000000000000000001191d13f5";
  const std::string record = sign_provider_record(sample(), key).value();
  EXPECT_EQ(format_hex(as_bytes(record)), golden);
  EXPECT_EQ(decode_provider_record(as_bytes(record)).value(), sample());
  EXPECT_FALSE(sample().is_withdrawal());
}

TEST(ProviderRecord, a_withdrawal_has_no_endpoint) {
  ProviderRecord record = sample();
  record.endpoints.clear();
  const auto again = decode_provider_record(as_bytes(sign_provider_record(record, key).value()));
  EXPECT_EQ(again.value(), record);
  EXPECT_TRUE(again->is_withdrawal());
}

TEST(ProviderRecord, the_largest_record_fits) {
  ProviderRecord record = sample();
  for (std::uint16_t i = 1; record.endpoints.size() < endpoints_max; ++i)
    record.endpoints.push_back(
        endpoint("20010db80000000000000000000000ff", static_cast<std::uint16_t>(65'535 - i), true));
  record.sequence = ~std::uint64_t{0};
  const std::string bytes = sign_provider_record(record, key).value();
  EXPECT_LE(bytes.size(), provider_record_size_max);
  EXPECT_EQ(decode_provider_record(as_bytes(bytes)).value(), record);
}

TEST(ProviderRecord, what_breaks_an_invariant_is_not_signed) {
  const auto refused = [](auto spoil) {
    ProviderRecord record = sample();
    spoil(record);
    return sign_provider_record(record, key).error().code == ErrorCode::invalid;
  };
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.endpoints[1].port = 0; }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.endpoints[1] = record.endpoints[0]; }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.endpoints.resize(endpoints_max + 1); }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.sequence = 0; }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.expiry = WallTime{-1}; }));
}

RC_GTEST_PROP(ProviderRecord, no_byte_of_a_record_can_be_another, ()) {
  std::string record = sign_provider_record(sample(), key).value();
  const auto at = *rc::gen::inRange<std::size_t>(0, record.size());
  record[at] = static_cast<char>(record[at] ^ *rc::gen::inRange(1, 256));
  RC_ASSERT(refusal(record) != ErrorCode::ok);
}

TEST(ProviderRecord, the_signature_is_of_the_node_that_it_names_and_of_this_kind_of_record) {
  const std::string record = sign_provider_record(sample(), key).value();
  const std::string body(as_text(split_record(as_bytes(record), provider_record_size_max)->body));
  EXPECT_EQ(refusal(sign_record(provider_record_tag, body, key)), ErrorCode::ok);
  EXPECT_EQ(refusal(sign_record(provider_record_tag, body, sample_key(2))), ErrorCode::invalid_sig);
  EXPECT_EQ(refusal(sign_record("cairn-name-change-v1", body, key)), ErrorCode::invalid_sig);
}

TEST(ProviderRecord, a_part_and_more_than_a_record_are_malformed) {
  const std::string record = sign_provider_record(sample(), key).value();
  for (std::size_t size = 0; size < record.size(); ++size)
    EXPECT_EQ(refusal(record.substr(0, size)), ErrorCode::malformed) << size;
  EXPECT_EQ(refusal(record + '\0'), ErrorCode::malformed);
}

}  // namespace cairn::format
