// The simulated arena: plain memory. A simulated stream copies what is sent from it, so what is on its way
// never changes.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "io/memory.h"

namespace cairn::io::sim {

class SimArena final : public Arena {
 public:
  explicit SimArena(std::size_t size) : bytes_(size), file_(bytes_, -1) {}

  std::byte* data() noexcept override { return bytes_.data(); }
  std::size_t size() const noexcept override { return bytes_.size(); }
  File& file() noexcept override { return file_; }
  void punch(std::size_t offset, std::size_t count) noexcept override {
    CHECK(offset % page == 0 && count % page == 0 && offset <= size() && count <= size() - offset);
    std::fill_n(data() + offset, count, std::byte{0});
  }

 private:
  std::vector<std::byte> bytes_;
  ArenaFile file_;
};

class SimMemory final : public Memory {
 public:
  Result<std::unique_ptr<Arena>> make_arena(std::size_t bytes) override {
    constexpr std::size_t most = std::size_t{1} << 30;  // a test that asks for more is wrong
    if (bytes == 0 || bytes > most) return fail(ErrorCode::invalid, "size of an arena");
    return std::make_unique<SimArena>((bytes + Arena::page - 1) / Arena::page * Arena::page);
  }
};

}  // namespace cairn::io::sim
