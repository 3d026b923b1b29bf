// expect-tidy: bugprone-unused-return-value
// An error that nobody reads did not happen, until it did.
#include "base/result.h"

cairn::Result<> save() { return {}; }

bool caller() {
#ifdef RIGHT
  return save().has_value();
#else
  save();
  return true;
#endif
}
