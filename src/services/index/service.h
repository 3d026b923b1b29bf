// Index: names and addresses to manifests and providers, over HTTP. The only public header of the service.
#pragma once

#include <memory>
#include <string>

#include "config/snapshot.h"
#include "serve/service.h"
#include "services/index/declarations.h"
#include "store/kv.h"

namespace cairn::index {

struct Options {
  LedgerOptions ledger;
  bool amnesia = false;
};
// The service's route table (routes.cpp).
std::span<const serve::RouteSpec> routes();

// `data`: the directory when `db.path` is not set. The caller sets the key that signs.
Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data);

// `kv` outlives the service.
std::unique_ptr<serve::Service> make_service(Options options, store::KvMaker& kv, Keys keys);

}  // namespace cairn::index
