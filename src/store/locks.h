// The locks of the engines, in the order in which they may be taken. Services that use an engine declare its
// locks among their own.
#pragma once

#include "runtime/declaration.h"

namespace cairn::store {

inline constexpr LockDeclaration changed_lock{"changed", 17,
                                              "addresses on their way from the committers to the announcer"};
inline constexpr LockDeclaration ports_lock{
    "ports", 18, "the shards' ports of a store, to tell them of a segment that is gone"};
inline constexpr LockDeclaration index_in_use_lock{"index-in-use", 19,
                                                   "which index of a store is in use, to change it"};
inline constexpr LockDeclaration cache_stripe_lock{"cache-stripe", 20,
                                                   "verified groups by address (striped)"};
inline constexpr LockDeclaration cache_slots_lock{"cache-slots", 21, "free slots of the cache"};
inline constexpr LockDeclaration index_map_lock{"index-map", 22, "the index, when it is kept in memory"};
inline constexpr LockDeclaration index_files_lock{"index-files", 23,
                                                  "the index's engine, while it is opened and closed"};
inline constexpr LockDeclaration index_recent_lock{"index-recent", 26,
                                                   "changes of the index that its engine does not have yet"};

}  // namespace cairn::store
