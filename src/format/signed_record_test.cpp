#include "format/signed_record.h"

#include <gtest/gtest.h>

#include "format/sample_records.h"

namespace cairn::format {
namespace {

// The kinds of records, and what is the same for all of them.
struct OfNames {
  static constexpr std::string_view tag = name_change_tag, other_tag = provider_record_tag;
  static constexpr std::size_t size_max = name_change_size_max;
  static std::string sample() { return sign_name_change(sample_change(), sample_record_key()).value(); }
  static auto decode(ByteView record) { return decode_name_change(record); }
};
struct OfProviders {
  static constexpr std::string_view tag = provider_record_tag, other_tag = name_change_tag;
  static constexpr std::size_t size_max = provider_record_size_max;
  static std::string sample() {
    return sign_provider_record(sample_provider_record(), sample_record_key()).value();
  }
  static auto decode(ByteView record) { return decode_provider_record(record); }
};

template <class Kind>
struct SignedRecord : testing::Test {
  static ErrorCode refusal(std::string_view record) {
    const auto decoded = Kind::decode(as_bytes(record));
    return decoded ? ErrorCode::ok : decoded.error().code;
  }
};
using Kinds = testing::Types<OfNames, OfProviders>;
TYPED_TEST_SUITE(SignedRecord, Kinds);

}  // namespace

TYPED_TEST(SignedRecord, no_byte_of_it_can_be_another) {
  std::string record = TypeParam::sample();
  ASSERT_EQ(this->refusal(record), ErrorCode::ok);
  for (char& byte : record) {
    const char right = byte;
    for (const int other : {1, 0x20, 0x80, 0xff}) {
      byte = static_cast<char>(right ^ other);
      EXPECT_NE(this->refusal(record), ErrorCode::ok) << &byte - record.data();
    }
    byte = right;
  }
}

TYPED_TEST(SignedRecord, the_signature_is_of_the_key_that_it_names_and_of_its_kind) {
  const std::string record = TypeParam::sample();
  const std::string body(as_text(split_record(as_bytes(record), TypeParam::size_max)->body));
  EXPECT_EQ(this->refusal(sign_record(TypeParam::tag, body, sample_record_key())), ErrorCode::ok);
  EXPECT_EQ(this->refusal(sign_record(TypeParam::tag, body, sample_key(2))), ErrorCode::invalid_sig);
  EXPECT_EQ(this->refusal(sign_record(TypeParam::other_tag, body, sample_record_key())),
            ErrorCode::invalid_sig);
}

TYPED_TEST(SignedRecord, a_part_and_more_than_a_record_are_malformed) {
  const std::string record = TypeParam::sample();
  for (std::size_t size = 0; size < record.size(); ++size)
    EXPECT_EQ(this->refusal(record.substr(0, size)), ErrorCode::malformed) << size;
  EXPECT_EQ(this->refusal(record + '\0'), ErrorCode::malformed);
  EXPECT_EQ(
      this->refusal(sign_record(TypeParam::tag, std::string(TypeParam::size_max, 'x'), sample_record_key())),
      ErrorCode::malformed);
}

}  // namespace cairn::format
