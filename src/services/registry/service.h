// Registry: signed descriptor sets over HTTP. The only public header of the service, beside what verifies a
// directory.
#pragma once

#include <memory>
#include <string>

#include "config/snapshot.h"
#include "serve/service.h"
#include "services/registry/declarations.h"
#include "services/registry/publisher.h"

namespace cairn::registry {

struct Options {
  RegistryOptions registry;
  bool ram = false;
};
// Its table (routes.cpp): what it answers.
std::span<const serve::RouteSpec> routes();

// `data`: where the log is when `storage.data_dir` does not say.
Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data);

// Without `publish` the service's own bus is told.
std::unique_ptr<serve::Service> make_service(Options options, Keys keys, Publish publish = {});

}  // namespace cairn::registry
