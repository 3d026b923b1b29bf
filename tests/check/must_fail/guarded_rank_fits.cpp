// expect: static assertion failed due to requirement '[^\n]*rank_bit < 32
// A rank is one bit of the shard's held locks.
#include "runtime/guarded.h"

#ifdef RIGHT
int read(cairn::Guarded<int, 27>& guarded) {
  return guarded.with([](int& value) { return value; });
}
#else
int read(cairn::Guarded<int, 32>& guarded) {
  return guarded.with([](int& value) { return value; });
}
#endif
