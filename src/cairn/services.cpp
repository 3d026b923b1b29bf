#include "cairn/services.h"

#include <algorithm>

namespace cairn::cli {

const ServiceEntry* find_service(std::string_view name) noexcept {
  const auto all = services();
  const auto at = std::ranges::find(all, name, &ServiceEntry::name);
  return at == all.end() ? nullptr : &*at;
}

}  // namespace cairn::cli
