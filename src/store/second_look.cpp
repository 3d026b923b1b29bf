#include "store/second_look.h"

#include "io/read_block.h"

namespace cairn::store {

Task<Result<HeapBytes>> read_past_cache(Call call, std::shared_ptr<io::File> file, std::uint64_t offset,
                                        std::size_t size) {
  constexpr std::size_t sector = io::File::direct_alignment;
  const std::size_t before = offset % sector;
  io::ReadBlocks memory((before + size + sector - 1) / sector * sector, 1);
  auto block = std::make_shared<io::ReadBlock>(memory.try_take());
  if (!*block) co_return fail(ErrorCode::busy, "there is no memory for a second look");
  CO_TRY(const std::size_t got, co_await file->read_direct(call, offset, size, {block->bytes(), block}));
  HeapBytes bytes(size);
  bytes.append(block->bytes().subspan(before, got));
  co_return std::move(bytes);
}

}  // namespace cairn::store
