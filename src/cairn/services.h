// The services that are built into this program, by name, for `config`, `topology`, `docs` and the
// completions. compose.cpp, which knows all services, makes the list.
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
