#include "http/h2/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace cairn::http::h2 {

TEST(SessionMemory, blocks_of_every_size_keep_their_bytes_and_are_aligned) {
  FramePool pool;
  const nghttp2_mem memory = session_memory(pool);
  for (const std::size_t size : {0u, 1u, 16u, 63u, 64u, 4096u, 20'000u}) {
    auto* block = static_cast<char*>(memory.malloc(size, memory.mem_user_data));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t), 0u);
    std::fill_n(block, size, 'x');
    block = static_cast<char*>(memory.realloc(block, size * 2 + 1, memory.mem_user_data));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(std::count(block, block + size, 'x'), static_cast<std::ptrdiff_t>(size));
    block = static_cast<char*>(memory.realloc(block, size / 2, memory.mem_user_data));
    EXPECT_EQ(std::count(block, block + size / 2, 'x'), static_cast<std::ptrdiff_t>(size / 2));
    memory.free(block, memory.mem_user_data);
  }
  memory.free(nullptr, memory.mem_user_data);
  memory.free(memory.realloc(nullptr, 5, memory.mem_user_data), memory.mem_user_data);
}

TEST(SessionMemory, used_blocks_are_cleared_when_that_is_asked) {
  FramePool pool;
  const nghttp2_mem memory = session_memory(pool);
  auto* used = static_cast<char*>(memory.malloc(100, memory.mem_user_data));
  std::fill_n(used, 100, 'x');
  memory.free(used, memory.mem_user_data);
  auto* zeros = static_cast<char*>(memory.calloc(10, 10, memory.mem_user_data));
  EXPECT_EQ(std::count(zeros, zeros + 100, '\0'), 100);
  memory.free(zeros, memory.mem_user_data);
}

TEST(SessionMemory, what_no_machine_has_is_refused) {
  FramePool pool;
  const nghttp2_mem memory = session_memory(pool);
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(memory.malloc(all, memory.mem_user_data), nullptr);
  EXPECT_EQ(memory.calloc(all / 2, 3, memory.mem_user_data), nullptr);
}

}  // namespace cairn::http::h2
