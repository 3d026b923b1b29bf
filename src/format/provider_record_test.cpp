#include "format/provider_record.h"

#include <gtest/gtest.h>

#include "format/sample_records.h"

namespace cairn::format {
// Bytes and signature come from other programs (Python's cryptography, a small encoder).
TEST(ProviderRecord, a_record_has_bytes_that_never_change) {
  const std::string golden =
      "a263736967584075538c9e88bd4941627f860ba12731cc2faa0fbb213f7b19f3ae2269f2f7aac1d67077eef3847fef2d"
      "d6e7746ec3ccec78db466948b05ae91b4bf0438eccee0c64626f647958a2a5636b657958208a88e3dd7409f195fd52db"
      "2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c666578706972791b0000019b76e3cfc067616464726573735820d4"
      "c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a5266873657175656e63650769656e64706f69"
      "6e747382835000000000000000000000ffffc0000201191ce8f4835020010db8000000000000000000000001191d13f5";
  const std::string record = sign_provider_record(sample_provider_record(), sample_record_key()).value();
  EXPECT_EQ(format_hex(as_bytes(record)), golden);
  EXPECT_EQ(decode_provider_record(as_bytes(record)).value(), sample_provider_record());
  EXPECT_FALSE(sample_provider_record().is_withdrawal());
}

TEST(ProviderRecord, a_withdrawal_has_no_endpoint) {
  ProviderRecord record = sample_provider_record();
  record.endpoints.clear();
  const auto again =
      decode_provider_record(as_bytes(sign_provider_record(record, sample_record_key()).value()));
  EXPECT_EQ(again.value(), record);
  EXPECT_TRUE(again->is_withdrawal());
}

TEST(ProviderRecord, the_largest_record_fits) {
  ProviderRecord record = sample_provider_record();
  for (std::uint16_t i = 1; record.endpoints.size() < endpoints_max; ++i)
    record.endpoints.push_back(
        sample_endpoint("20010db80000000000000000000000ff", static_cast<std::uint16_t>(65'535 - i), true));
  record.sequence = ~std::uint64_t{0};
  const std::string bytes = sign_provider_record(record, sample_record_key()).value();
  EXPECT_LE(bytes.size(), provider_record_size_max);
  EXPECT_EQ(decode_provider_record(as_bytes(bytes)).value(), record);
}

TEST(ProviderRecord, what_breaks_an_invariant_is_not_signed) {
  const auto refused = [](auto spoil) {
    ProviderRecord record = sample_provider_record();
    spoil(record);
    return sign_provider_record(record, sample_record_key()).error().code == ErrorCode::invalid;
  };
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.endpoints[1].port = 0; }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.endpoints[1] = record.endpoints[0]; }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.endpoints.resize(endpoints_max + 1); }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.sequence = 0; }));
  EXPECT_TRUE(refused([](ProviderRecord& record) { record.expiry = WallTime{-1}; }));
}

}  // namespace cairn::format
