// The services that are built into this program, by name: what `config`, `topology`, `docs` and the
// completions know of them. The list is made where all services are known.
#pragma once

#include <span>
#include <string_view>

#include "config/schema.h"
#include "runtime/topology.h"
#include "serve/route.h"

namespace cairn::cli {

struct ServiceEntry {
  std::string_view name;
  const ServiceDeclaration* declaration;
  void (*declare_keys)(config::Schema& schema);
  std::span<const serve::RouteSpec> (*routes)();
};

std::span<const ServiceEntry> services() noexcept;
const ServiceEntry* find_service(std::string_view name) noexcept;

}  // namespace cairn::cli
