// Where the index of a store is: in `index`, or in `index.N` once a new one was made beside another. The
// highest number is the one in use.
//
// A file `index.damaged` says that no index of this store is to be trusted. It is there, durable, before the
// first byte of a new one is written, until that one is in use: so a start knows of damage that it would only
// meet later, and never has to tell a new index that is complete from one that is not. It makes the index
// anew from the log.
#pragma once

#include <cstdint>
#include <string>

#include "io/machine.h"
#include "observe/log.h"
#include "store/kv.h"

namespace cairn::store {

std::string index_path(const std::string& store, std::uint64_t number);

// Before an index is opened: the number of the one in use, after everything else was taken away.
// Cancel: partial — the next start goes on with it.
Task<Result<std::uint64_t>> settle_index_place(Call call, io::Machine& machine, KvMaker& maker,
                                               std::string store, observe::Logger log);

// Durable when it returns; there may be one already. Cancel: partial — it may be there.
Task<Result<>> mark_index_damaged(Call call, io::Machine& machine, std::string store);
// Cancel: partial — it may be gone.
Task<Result<>> unmark_index_damaged(Call call, io::Machine& machine, std::string store);

}  // namespace cairn::store
