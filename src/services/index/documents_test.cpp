#include "services/index/documents.h"

#include <gtest/gtest.h>

#include "codec/base64.h"
#include "services/index/node_target.h"
#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

std::string batch_of(const std::vector<SignedProvider>& records) {
  std::string out = R"({"records":[)";
  for (const SignedProvider& one : records)
    out += (out.ends_with('[') ? "\"" : ",\"") + codec::encode_base64(as_bytes(one.bytes)) + '"';
  return out + "]}";
}

TEST(Documents, an_unknown_field_or_a_wrong_value_is_malformed) {
  codec::JsonReader reader;
  const std::string address = format_address(sample_address(1));
  const auto wish = read_wish(reader, R"({"manifest":")" + address + R"(","note":"why"})");
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->manifest, sample_address(1));
  EXPECT_EQ(wish->note, "why");
  for (const std::string& bad :
       {std::string("{}"), std::string("[]"), std::string(R"({"manifest":"b3:1"})"),
        R"({"manifest":")" + address + R"(","x":1})", R"({"manifest":")" + address + R"(","note":1})"})
    EXPECT_FALSE(read_wish(reader, bad)) << bad;
}

TEST(Documents, records_that_are_forged_or_over_are_counted_and_left_out) {
  codec::JsonReader reader;
  SignedProvider forged = sample_provider({.key = 3});
  forged.bytes.back() = static_cast<char>(forged.bytes.back() ^ 1);
  const auto read =
      read_announcements(reader,
                         batch_of({sample_provider({.key = 1}), forged,
                                   sample_provider({.key = 2, .lives = Duration::seconds(0)}),
                                   sample_provider({.key = 4, .lives = Duration::seconds(60 * 24 * 3600)})}),
                         sample_now);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->records.size(), 1u);
  EXPECT_EQ(read->forged + read->expired, 3u);
  EXPECT_FALSE(read_announcements(reader, batch_of(std::vector(1001, sample_provider())), sample_now));
  EXPECT_TRUE(read_announcements(reader, batch_of({}), sample_now));
}

TEST(Documents, another_nodes_forged_records_are_as_if_they_had_not_been_sent) {
  SignedProvider forged = sample_provider({.key = 3});
  forged.bytes.back() = static_cast<char>(forged.bytes.back() ^ 1);
  const auto answer = read_records(sample_address(1), batch_of({sample_provider({.key = 1}), forged}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->providers.size(), 1u);
  for (const char* bad : {"", "{}", "[]", R"({"records":1})", R"({"records":[1]})", R"({"records":["!"]})"})
    EXPECT_FALSE(read_records(sample_address(1), bad)) << bad;
  EXPECT_FALSE(read_records(sample_address(1), batch_of(std::vector(33, sample_provider()))));
}

}  // namespace
}  // namespace cairn::index
