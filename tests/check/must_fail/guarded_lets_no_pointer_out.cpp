// expect: no matching member function for call to 'with'[\s\S]*'!Escaping<
// A pointer to the value that leaves `with` is the value without its lock.
#include <cstddef>
#include <string>

#include "runtime/guarded.h"

std::size_t size_of(cairn::Guarded<std::string, 1>& guarded) {
#ifdef RIGHT
  return guarded.with([](std::string& name) { return name.size(); });
#else
  return guarded.with([](std::string& name) { return &name; })->size();
#endif
}
