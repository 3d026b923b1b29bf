// Index: names and addresses to manifests and providers, over HTTP. The only public header of the service.
#pragma once

#include <memory>
#include <string>

#include "config/snapshot.h"
#include "serve/service.h"
#include "services/index/declarations.h"
#include "services/index/finder.h"
#include "services/index/provider_table.h"
#include "services/index/publisher.h"
#include "services/index/ranking.h"
#include "store/kv.h"

namespace cairn::index {

// What a configuration says of lookups and rankings; it may change while the service runs.
struct Policies {
  FinderPolicy finder;
  RankPolicy rank;
};
io::DhtOptions read_dht_options(const config::Snapshot& snapshot, const Keys& keys);
Policies read_policies(const config::Snapshot& snapshot, const Keys& keys);

struct Options {
  LedgerOptions ledger;
  std::string providers;  // the directory of the table of providers
  std::uint64_t announced_max = announced_capacity;
  Policies policies;
  io::DhtOptions dht;
  std::string dht_peers;  // the file of peers that are remembered
  PublishPolicy publish;
  bool amnesia = false;
};
// The service's route table (routes.cpp).
std::span<const serve::RouteSpec> routes();

// `data`: the directory when `db.path` is not set. The caller sets the key that signs.
Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data);

// The makers outlive the service.
std::unique_ptr<serve::Service> make_service(Options options, store::KvMaker& kv, io::DhtMaker& dht,
                                             Keys keys);

}  // namespace cairn::index
