// expect: no matching member function for call to 'with'[\s\S]*'!Escaping<
// A reference that leaves `with` is the value without its lock.
#include <string>

#include "runtime/guarded.h"

std::string name_of(cairn::Guarded<std::string, 1>& guarded) {
#ifdef RIGHT
  return guarded.with([](std::string& name) { return name; });
#else
  return guarded.with([](std::string& name) -> std::string& { return name; });
#endif
}
