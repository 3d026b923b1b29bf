#include "runtime/buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace cairn {

std::byte* Buffer::data() const noexcept {
  return block_ == nullptr ? nullptr : reinterpret_cast<std::byte*>(block_) + Slab::header;
}

// The header is part of the block, so that a 4 KiB block is one page.
std::size_t Buffer::capacity() const noexcept {
  return block_ == nullptr ? 0 : Slab::sizes[block_->bin] - (block_->bin == 0 ? Slab::header : 0);
}

void Buffer::reset() noexcept {
  if (block_ == nullptr) return;
  if (--block_->owners == 0) block_->slab->give(block_);
  block_ = nullptr;
  begin_ = end_ = 0;
}

Buffer Buffer::share() const noexcept {
  Buffer other(block_);
  if (block_ != nullptr) ++block_->owners;
  other.begin_ = begin_;
  other.end_ = end_;
  return other;
}

void Buffer::compact() noexcept {
  if (begin_ == 0) return;
  std::memmove(data(), data() + begin_, size());
  end_ -= begin_;
  begin_ = 0;
}

Buffer Slab::take(std::size_t size) {
  static_assert(sizeof(Buffer::Block) <= header);
  CHECK(size <= large);
  const std::uint32_t bin = size <= small - header ? 0 : size <= medium ? 1 : 2;
  Buffer::Block* block = bins_[bin].free;
  if (block != nullptr) {
    bins_[bin].free = block->next_free;
    --bins_[bin].count;
  } else {
    const std::size_t total = sizes[bin] + (bin == 0 ? 0 : header);
    block = static_cast<Buffer::Block*>(std::malloc(total));
    if (block == nullptr) throw std::bad_alloc();
  }
  *block = {this, nullptr, 1, bin};
  ++outstanding_;
  bytes_ += sizes[bin];
  return Buffer(block);
}

void Slab::give(Buffer::Block* block) noexcept {
  Bin& bin = bins_[block->bin];
  --outstanding_;
  bytes_ -= sizes[block->bin];
  if (bin.count >= kept[block->bin]) {
    std::free(block);
    return;
  }
  block->next_free = bin.free;
  bin.free = block;
  ++bin.count;
}

Slab::~Slab() {
  CHECK(outstanding_ == 0);
  for (Bin& bin : bins_)
    while (bin.free != nullptr) {
      Buffer::Block* block = bin.free;
      bin.free = block->next_free;
      std::free(block);
    }
}

}  // namespace cairn
