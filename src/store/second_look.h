// A second look at bytes that did not match: past the page cache, as the disk has them. One bad read, or a
// bit that flipped in memory, is not rot.
#pragma once

#include <memory>

#include "base/heap_bytes.h"
#include "io/file.h"
#include "runtime/task.h"

namespace cairn::store {

// Short only at the end of the file. For rare use: the memory is asked of the system. Cancel: clean.
Task<Result<HeapBytes>> read_past_cache(Call call, std::shared_ptr<io::File> file, std::uint64_t offset,
                                        std::size_t size);

}  // namespace cairn::store
