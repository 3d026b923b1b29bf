// What every DHT promises, asked of each twin.
#include "io/dht.h"

#include <gtest/gtest.h>

#include <set>

#include "crypto/blake3.h"
#include "io/dht_setting.h"
#include "io/open_dht_setting.h"

namespace cairn::io {
namespace {

using Settings = testing::Types<LocalReal, LocalSimulated, Simulated, OpenReal>;
class SettingName {
 public:
  template <class T>
  static std::string GetName(int) {
    if (std::is_same_v<T, LocalReal>) return "Local";
    if (std::is_same_v<T, LocalSimulated>) return "LocalSimulated";
    return std::is_same_v<T, Simulated> ? "Simulated" : "Open";
  }
};
TYPED_TEST_SUITE(DhtTest, Settings, SettingName);

TYPED_TEST(DhtTest, a_value_that_was_put_is_found_from_elsewhere) {
  const DhtValue value{1, std::string("\0any\xff", 5)};
  ASSERT_EQ(code_of(this->put(sample_key(1), value)), ErrorCode::ok);
  const auto got = this->get(sample_key(1));
  ASSERT_EQ(code_of(got.outcome), ErrorCode::ok);
  EXPECT_EQ(got.values, std::vector{value});
  EXPECT_TRUE(got.outcome->complete);
  EXPECT_FALSE(got.outcome->satisfied);
  EXPECT_EQ(got.outcome->given, 1u);
  EXPECT_EQ(got.outcome->dropped, 0u);
}

TYPED_TEST(DhtTest, a_key_without_values_is_complete_and_empty) {
  const auto got = this->get(sample_key(2));
  ASSERT_EQ(code_of(got.outcome), ErrorCode::ok);
  EXPECT_TRUE(got.outcome->complete);
  EXPECT_TRUE(got.values.empty());
}

TYPED_TEST(DhtTest, all_values_of_a_key_are_found_and_none_of_another) {
  std::vector<DhtValue> values;
  for (std::uint64_t id = 1; id <= 32; ++id) {
    values.push_back({id, std::string(id * 10, static_cast<char>('a' + id % 26))});
    ASSERT_EQ(code_of(this->put(sample_key(3), values.back(), id % 2)), ErrorCode::ok);
  }
  ASSERT_EQ(code_of(this->put(sample_key(4), {1, "of another key"})), ErrorCode::ok);
  const auto got = this->get(sample_key(3));
  ASSERT_EQ(code_of(got.outcome), ErrorCode::ok);
  EXPECT_EQ(each_once(got.values), values);
}

TYPED_TEST(DhtTest, a_get_ends_with_the_value_that_satisfies) {
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_EQ(code_of(this->put(sample_key(5), {id, "value"})), ErrorCode::ok);
  const auto got = this->get(sample_key(5), 1, 2);
  ASSERT_EQ(code_of(got.outcome), ErrorCode::ok);
  EXPECT_TRUE(got.outcome->satisfied);
  EXPECT_FALSE(got.outcome->complete);
  EXPECT_EQ(got.values.size(), 2u);
}

TYPED_TEST(DhtTest, DH2_the_largest_value_is_found_and_a_larger_one_is_refused) {
  const DhtValue largest{1, std::string(dht_value_max, '\xc3')};
  ASSERT_EQ(code_of(this->put(sample_key(6), largest)), ErrorCode::ok);
  EXPECT_EQ(this->get(sample_key(6)).values, std::vector{largest});
  for (const DhtValue& refused : {DhtValue{2, largest.bytes + 'x'}, DhtValue{3, ""}, DhtValue{0, "x"}})
    EXPECT_EQ(code_of(this->put(sample_key(6), refused)), ErrorCode::invalid);
  EXPECT_EQ(this->get(sample_key(6)).values.size(), 1u);
}

TYPED_TEST(DhtTest, DH4_a_value_put_again_is_one_value_and_other_bytes_do_not_replace_it) {
  const DhtValue first{1, "first"};
  ASSERT_EQ(code_of(this->put(sample_key(7), first)), ErrorCode::ok);
  ASSERT_EQ(code_of(this->put(sample_key(7), first)), ErrorCode::ok);
  EXPECT_EQ(each_once(this->get(sample_key(7)).values), std::vector{first});
  (void)this->put(sample_key(7), {1, "other bytes"}, 1);
  for (const unsigned port : {0u, 1u})
    EXPECT_GE(std::ranges::count(this->get(sample_key(7), port).values, first), 1) << port;
}

TYPED_TEST(DhtTest, a_stopped_call_gives_nothing) {
  ASSERT_EQ(code_of(this->put(sample_key(8), {1, "value"})), ErrorCode::ok);
  auto& place = this->at.place(1);
  CancelSource stop(place.machine.shard, &place.call().cancel());
  stop.cancel(StopReason::client_gone);
  const auto take = [](const DhtValue&) {
    ADD_FAILURE() << "given to a call that was stopped";
    return false;
  };
  EXPECT_EQ(code_of(place.run(this->ports[1]->get(place.call().under(stop), sample_key(8), take))),
            ErrorCode::cancelled);
  EXPECT_EQ(code_of(place.run(this->ports[1]->get(place.call().by(Instant{1}), sample_key(8), take))),
            ErrorCode::timeout);
}

TYPED_TEST(DhtTest, the_status_tells_that_it_is_ready_and_what_is_under_way) {
  ASSERT_EQ(code_of(this->put(sample_key(9), {1, "value"})), ErrorCode::ok);
  auto& place = this->at.place(0);
  const auto status = place.run(this->ports[0]->status(place.call()));
  ASSERT_EQ(code_of(status), ErrorCode::ok);
  EXPECT_TRUE(status->ready);
  EXPECT_EQ(status->under_way, 0u);
  EXPECT_EQ(status->dropped, 0u);
}

TYPED_TEST(DhtTest, DH5_after_the_close_every_operation_is_closed) {
  ASSERT_EQ(code_of(this->put(sample_key(10), {1, "value"})), ErrorCode::ok);
  ASSERT_EQ(this->close(0), ErrorCode::ok);
  ASSERT_EQ(this->close(0), ErrorCode::ok) << "again is fine";
  auto& place = this->at.place(0);
  EXPECT_EQ(code_of(this->put(sample_key(10), {2, "value"})), ErrorCode::closed);
  EXPECT_EQ(code_of(this->get(sample_key(10), 0).outcome), ErrorCode::closed);
  EXPECT_EQ(code_of(place.run(this->ports[0]->status(place.call()))), ErrorCode::closed);
  EXPECT_EQ(code_of(place.run(this->ports[0]->export_peers(place.call()))), ErrorCode::closed);
  EXPECT_EQ(code_of(place.run(this->ports[0]->bootstrap(place.call(), {{"127.0.0.1", 9}}))),
            ErrorCode::closed);
}

// --- what needs no network

TEST(DhtKeys, each_part_changes_the_key_and_no_two_encodings_are_alike) {
  const Address a = crypto::hash_object(as_bytes("a"));
  const Address b = crypto::hash_object(as_bytes("b"));
  const std::set<DhtKey> keys{dht_key("provider", 1, a), dht_key("provider", 2, a), dht_key("provider", 1, b),
                              dht_key("names", 1, a),    dht_key("", 1, a),         dht_key("p", 1, a)};
  EXPECT_EQ(keys.size(), 6u);
  EXPECT_EQ(dht_key("provider", 1, a), dht_key("provider", 1, a));
  EXPECT_EQ(format_hex(dht_key("provider", 1, Address{}).bytes), "35e0dbb95d48bfe3b0c99ea85017e68b9b16c6e2");
}

TEST(DhtOptions, a_network_without_a_number_or_an_address_is_refused) {
  EXPECT_EQ(find_fault(options_of(DhtMode::private_network, {{"peer.example", 4222}})), nullptr);
  EXPECT_EQ(find_fault(DhtOptions{}), nullptr) << "within the process";
  DhtOptions options = options_of(DhtMode::lan);
  options.network = 0;
  EXPECT_NE(find_fault(options), nullptr);
  options = options_of(DhtMode::lan);
  options.bind = {};
  EXPECT_NE(find_fault(options), nullptr);
  options.bind = {.host = {}, .port = 0, .path = "/run/x.sock"};
  EXPECT_NE(find_fault(options), nullptr);
  EXPECT_NE(find_fault(options_of(DhtMode::public_network, {{"peer.example", 0}})), nullptr);
}

}  // namespace
}  // namespace cairn::io
