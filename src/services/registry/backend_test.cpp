#include "services/registry/backend.h"

#include <gtest/gtest.h>

#include "services/registry/record.h"
#include "store/simulated_log.h"

namespace cairn::registry {
namespace {

// [BE-1]
TEST(EmbeddedBackend, it_advances_only_from_the_head_that_is_named) {
  store::SimulatedLog log;
  ASSERT_TRUE(log.open());
  EmbeddedBackend backend(std::move(log.log), std::nullopt);
  const auto advance = [&](MaybeHead from, std::uint64_t to) {
    std::vector<store::Record> batch;
    batch.push_back(store::TestRecord{std::to_string(to), ""}.record());
    return log.run(backend.advance(log.call(), from, HeadMark{to, {}}, std::move(batch)));
  };
  const std::uint64_t before = backend.log().end().sequence;
  EXPECT_EQ(store::code_of(advance(HeadMark{0, {}}, 1)), ErrorCode::chain_mismatch);
  EXPECT_EQ(backend.log().end().sequence, before);
  ASSERT_TRUE(advance(std::nullopt, 0));
  EXPECT_EQ(store::code_of(advance(std::nullopt, 0)), ErrorCode::chain_mismatch);
  EXPECT_EQ(store::code_of(advance(HeadMark{0, Address{Hash{std::byte{1}}}}, 1)), ErrorCode::chain_mismatch);
  ASSERT_TRUE(advance(HeadMark{0, {}}, 1));
  EXPECT_EQ(backend.log().end().sequence, before + 2);
}

}  // namespace
}  // namespace cairn::registry
