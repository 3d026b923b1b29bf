#include "model/mutant.h"

#include <cstdlib>

namespace cairn::mutant {

const int active = [] {
  const char* number = std::getenv("CAIRN_MUTANT");
  return number != nullptr ? std::atoi(number) : 0;
}();

}  // namespace cairn::mutant
