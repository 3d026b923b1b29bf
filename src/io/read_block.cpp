#include "io/read_block.h"

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "io/file.h"

namespace cairn::io {

struct ReadBlock::Block {
  std::byte* data = nullptr;
  std::size_t owners = 0;
  std::shared_ptr<ReadBlocks::State> home;  // while it is out
};

struct ReadBlocks::State {
  State(std::size_t bytes, std::size_t most) : block_bytes(bytes), blocks(most) { free.reserve(most); }
  ~State() {
    if (mapped != nullptr) ::munmap(mapped, mapped_bytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Address space for all of them at once, so that they lie side by side in huge pages. Memory comes with
  // the first use of each.
  bool map() noexcept {
    constexpr std::size_t huge = std::size_t{2} << 20;
    const std::size_t size = block_bytes * blocks.size() + 2 * huge;
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    mapped = at;
    mapped_bytes = size;
    const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(at) % huge) % huge;
    std::byte* const first = static_cast<std::byte*>(at) + before;
    const std::size_t whole = (block_bytes * blocks.size() + huge - 1) / huge * huge;
    (void)::madvise(first, whole, MADV_HUGEPAGE);  // failure only makes reads slower
    for (std::size_t i = blocks.size(); i-- > 0;) {
      blocks[i].data = first + i * block_bytes;
      free.push_back(&blocks[i]);
    }
    return true;
  }

  const std::size_t block_bytes;
  std::vector<ReadBlock::Block> blocks;
  std::vector<ReadBlock::Block*> free;  // the next one last
  void* mapped = nullptr;
  std::size_t mapped_bytes = 0;
};

MutableByteView ReadBlock::bytes() const noexcept { return {block_->data, block_->home->block_bytes}; }

ReadBlock ReadBlock::share() const noexcept {
  if (block_ != nullptr) ++block_->owners;
  return ReadBlock(block_);
}

void ReadBlock::release(void* detached) noexcept {
  auto* const block = static_cast<Block*>(detached);
  CHECK(block->owners > 0);
  if (--block->owners > 0) return;
  const auto home = std::move(block->home);  // the last block out destroys the State
  home->free.push_back(block);
}

ReadBlocks::ReadBlocks(std::size_t block_bytes, std::size_t most)
    : state_(std::make_shared<State>(block_bytes, most)) {
  CHECK(block_bytes % File::direct_alignment == 0 && most > 0);
}
ReadBlocks::~ReadBlocks() = default;

ReadBlock ReadBlocks::try_take() noexcept {
  State& state = *state_;
  if (state.mapped == nullptr && !state.map()) return {};
  if (state.free.empty()) return {};
  ReadBlock::Block* const block = state.free.back();
  state.free.pop_back();
  block->owners = 1;
  block->home = state_;
  return ReadBlock(block);
}

std::size_t ReadBlocks::outstanding() const noexcept {
  return state_->mapped == nullptr ? 0 : state_->blocks.size() - state_->free.size();
}

}  // namespace cairn::io
