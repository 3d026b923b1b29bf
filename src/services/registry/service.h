// Registry: signed descriptor sets over HTTP. The only public header of the service, beside
// verify_directory.h.
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
// The service's route table (routes.cpp).
std::span<const serve::RouteSpec> routes();

// `data`: the log's directory when `storage.data_dir` is not set.
Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data);

// Without `publish`, new versions go to the service's own bus.
std::unique_ptr<serve::Service> make_service(Options options, Keys keys, Publish publish = {});

}  // namespace cairn::registry
