// Where the index of a store is: in `index`, or in `index.N` once a new one was made beside another. The
// highest number is the index in use.
//
// A file `index.damaged` says that no index of this store is to be trusted. The file is durable before the
// first byte of a new index is written, and stays until the new index is in use. So a start knows of damage
// that it would otherwise meet only later, and never has to tell a complete new index from an incomplete one.
// Where the file is, the start makes the index anew from the log.
#pragma once

#include <cstdint>
#include <string>

#include "io/machine.h"
#include "observe/log.h"
#include "store/kv.h"

namespace cairn::store {

std::string index_path(const std::string& store, std::uint64_t number);

// Called before an index is opened. Gives the number of the index in use, after removing all others.
// Cancel: partial — the next start goes on with it.
Task<Result<std::uint64_t>> settle_index_place(Call call, io::Machine& machine, KvMaker& maker,
                                               std::string store, observe::Logger log);

// Durable when it returns; there may be one already. Cancel: partial — it may be there.
Task<Result<>> mark_index_damaged(Call call, io::Machine& machine, std::string store);
// Cancel: partial — it may be gone.
Task<Result<>> unmark_index_damaged(Call call, io::Machine& machine, std::string store);

}  // namespace cairn::store
