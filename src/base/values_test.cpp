#include "base/ulid.h"

#include <gtest/gtest.h>

#include "base/address.h"
#include "base/error.h"

namespace cairn {

TEST(Ulid, text_round_trips_and_sorts_by_time) {
  Ulid early = make_ulid({1'000}, 7, 9);
  Ulid late = make_ulid({2'000}, 0, 0);
  EXPECT_LT(early, late);
  EXPECT_LT(format_ulid(early), format_ulid(late));
  EXPECT_EQ(parse_ulid(format_ulid(early)), early);
  EXPECT_EQ(format_ulid({~0ull, ~0ull}), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

TEST(Ulid, foreign_letters_length_and_overflow_are_refused) {
  EXPECT_FALSE(parse_ulid("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"));
  EXPECT_FALSE(parse_ulid("01ARZ3NDEKTSV4RRFFQ69G5FAI"));
  EXPECT_FALSE(parse_ulid("01ARZ3NDEKTSV4RRFFQ69G5FA"));
  EXPECT_TRUE(parse_ulid("01arz3ndektsv4rrffq69g5fav"));
}

TEST(Address, upper_case_is_normalised_and_the_rest_refused) {
  std::string upper = "b3:" + std::string(64, 'A');
  ASSERT_TRUE(parse_address(upper));
  EXPECT_EQ(format_address(*parse_address(upper)), "b3:" + std::string(64, 'a'));
  EXPECT_FALSE(parse_address("B3:" + std::string(64, 'a')));
  EXPECT_FALSE(parse_address("b3:" + std::string(63, 'a')));
  EXPECT_FALSE(parse_address("b3:" + std::string(64, 'g')));
}

TEST(Error, every_code_has_a_unique_name_that_finds_it) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::invalid); ++i) {
    auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(find_error_code(name_of(code)), code);
  }
  EXPECT_EQ(status_of(ErrorCode::busy), 429);
  EXPECT_EQ(Error(ErrorCode::busy, "x").retry(), Retry::later);
  EXPECT_FALSE(find_error_code("nonsense"));
}

}  // namespace cairn
