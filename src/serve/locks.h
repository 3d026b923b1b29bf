// The locks that every service has.
#pragma once

#include "runtime/declaration.h"

namespace cairn::serve {

inline constexpr LockDeclaration addresses_lock{"addresses", 10,
                                                "connections counted per address (16 stripes)"};
inline constexpr LockDeclaration root_keys_lock{
    "root-keys", 11, "the root keys of capabilities, as last read from their file"};

}  // namespace cairn::serve
