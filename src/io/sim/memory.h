// The simulated arena: plain memory. A simulated stream copies the bytes it sends, so bytes on their way
// never change. A source of choices decides whether a large page is available.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "io/memory.h"
#include "io/sim/choice.h"

namespace cairn::io::sim {

class SimArena final : public Arena {
 public:
  // Without choices every block can be a large page.
  explicit SimArena(std::size_t size, ChoiceSource* choices = nullptr)
      : bytes_(size), file_(bytes_, -1), huge_(size), choices_(choices) {}

  std::byte* data() noexcept override { return bytes_.data(); }
  std::size_t size() const noexcept override { return bytes_.size(); }
  File& file() noexcept override { return file_; }
  void punch(std::size_t offset, std::size_t count) noexcept override {
    CHECK(offset % page == 0 && count % page == 0 && offset <= size() && count <= size() - offset);
    huge_.remove(offset, count);
    std::fill_n(data() + offset, count, std::byte{0});
  }
  bool make_huge(std::size_t offset) noexcept override {
    huge_.add(offset);
    const std::byte* first = data() + offset;
    CHECK(*first == std::byte{0} && std::memcmp(first, first + 1, block - 1) == 0);  // it holds no memory
    if (choices_ == nullptr || !choices_->chance(no_huge, "memory.no_huge")) return true;
    huge_.remove(offset, block);
    return false;
  }

  static constexpr std::uint32_t no_huge = 200'000;  // per million

 private:
  std::vector<std::byte> bytes_;
  ArenaFile file_;
  HugeBlocks huge_;
  ChoiceSource* choices_;
};

class SimMemory final : public Memory {
 public:
  explicit SimMemory(ChoiceSource* choices = nullptr) noexcept : choices_(choices) {}
  Result<std::unique_ptr<Arena>> make_arena(std::size_t bytes) override {
    constexpr std::size_t most = std::size_t{1} << 30;  // a test that asks for more is wrong
    if (bytes == 0 || bytes > most) return fail(ErrorCode::invalid, "size of an arena");
    return std::make_unique<SimArena>((bytes + Arena::page - 1) / Arena::page * Arena::page, choices_);
  }

 private:
  ChoiceSource* choices_;
};

}  // namespace cairn::io::sim
