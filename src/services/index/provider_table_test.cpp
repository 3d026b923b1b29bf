#include "services/index/provider_table.h"

#include <gtest/gtest.h>

#include <set>

#include "services/index/simulated_table.h"

namespace cairn::index {
namespace {

TEST(ProviderTable, of_two_records_of_a_node_the_higher_sequence_is_in_force) {  // PV-1
  SimulatedTable at;
  at.open();
  EXPECT_EQ(at.announce({at.provider({.key = 1, .sequence = 5})}).taken, 1u);
  EXPECT_EQ(at.announce({at.provider({.key = 1, .sequence = 4})}).older, 1u);
  EXPECT_EQ(at.announce({at.provider({.key = 1, .sequence = 5})}).older, 1u);
  ASSERT_EQ(at.find().size(), 1u);
  EXPECT_EQ(at.find()[0].record.sequence, 5u);
  EXPECT_TRUE(any_stands(at.find()));
  EXPECT_EQ(at.announce({at.provider({.key = 1, .sequence = 6, .withdrawn = true})}).taken, 1u);
  EXPECT_FALSE(any_stands(at.find()));
  EXPECT_EQ(at.announce({at.provider({.key = 1, .sequence = 5})}).older, 1u);
  EXPECT_FALSE(any_stands(at.find()));
}

TEST(ProviderTable, while_32_are_in_force_no_other_node_is_taken) {  // PV-2
  SimulatedTable at;
  at.open();
  std::vector<SignedProvider> all;
  for (unsigned char key = 1; key <= 33; ++key) all.push_back(at.provider({.key = key}));
  const Announced said = at.announce(std::move(all));
  EXPECT_EQ(said.taken, providers_max);
  EXPECT_EQ(said.crowded, 1u);
  // A node that is known may always say more.
  const auto known = at.find();
  unsigned char inside = 1;
  while (sample_key(inside).public_key() != known[0].record.key) ++inside;
  EXPECT_EQ(at.announce({at.provider({.key = inside, .sequence = 2})}).taken, 1u);
  // When their time is over there is room again.
  at.world.run_for(Duration::seconds(601));
  EXPECT_EQ(at.announce({at.provider({.key = 34})}).taken, 1u);
  EXPECT_EQ(at.find().size(), 1u);
}

TEST(ProviderTable, what_is_over_is_not_found_and_is_dropped) {
  SimulatedTable at;
  at.open();
  at.world.run_for(Duration::seconds(3));  // the first walk is over
  at.announce(
      {at.provider({.key = 1, .lives = Duration::seconds(10)}), at.provider({.key = 1, .address = 2})});
  EXPECT_EQ(at.table->status().addresses, 2u);
  at.world.run_for(Duration::seconds(15));
  EXPECT_TRUE(at.find(1).empty());
  EXPECT_EQ(at.find(2).size(), 1u);
  EXPECT_EQ(at.table->status().addresses, 1u);
}

TEST(ProviderTable, a_table_that_was_closed_keeps_its_epoch_and_one_that_was_not_has_another) {  // PV-3
  SimulatedTable at;
  at.open();
  const Ulid first = at.table->epoch();
  at.announce({at.provider({.key = 1})});
  at.close();
  at.open();
  EXPECT_EQ(at.table->epoch(), first);
  EXPECT_EQ(at.find().size(), 1u);
  at.open();
  EXPECT_NE(at.table->epoch(), first);
}

TEST(ProviderTable, a_start_tells_of_every_address_that_stands) {
  SimulatedTable at;
  std::set<Address> told;
  at.told = [&](const Address& address) { told.insert(address); };
  at.open();
  std::vector<SignedProvider> all;
  for (unsigned char i = 1; i <= 200; ++i) all.push_back(at.provider({.address = i}));
  at.announce(std::move(all));
  at.announce({at.provider({.sequence = 2, .withdrawn = true, .address = 7})});
  EXPECT_EQ(told.size(), 200u);
  told.clear();
  at.close();
  at.open();
  at.world.run_for(Duration::seconds(5));
  EXPECT_EQ(told.size(), 199u);
  EXPECT_FALSE(told.contains(sample_address(7)));
  EXPECT_EQ(at.table->status().addresses, 200u);
}

TEST(ProviderTable, damage_is_never_nobody_and_the_next_start_has_another_epoch) {
  SimulatedTable at;
  at.open();
  at.announce({at.provider({.key = 1})});
  const Ulid first = at.table->epoch();
  at.maker.damage("table/index", "P", "Q");
  const auto found = at.run(at.port->find(at.call(), sample_address(1)));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::degraded);
  at.world.run_for(Duration::seconds(3));
  at.open();
  EXPECT_NE(at.table->epoch(), first);
  EXPECT_TRUE(at.find().empty());
}

TEST(ProviderTable, what_is_known_here_to_be_over_is_taken_away_from_what_others_say) {
  std::vector<KnownProvider> known;
  known.push_back({sample_provider({.key = 1, .sequence = 5, .withdrawn = true}), sample_now});
  std::vector<SignedProvider> others = {sample_provider({.key = 1, .sequence = 4}),
                                        sample_provider({.key = 2, .sequence = 1})};
  drop_superseded(others, known);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].record.key, sample_key(2).public_key());
  others = {sample_provider({.key = 1, .sequence = 6})};
  drop_superseded(others, known);
  EXPECT_EQ(others.size(), 1u);
}

}  // namespace
}  // namespace cairn::index
