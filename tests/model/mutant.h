// Which planted bug is active in a mutated build: the number in CAIRN_MUTANT, read once; 0, none.
#pragma once

namespace cairn::mutant {
extern const int active;
}
