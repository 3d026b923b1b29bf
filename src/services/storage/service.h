// Storage: content-addressed objects over HTTP. The only public header of the service.
#pragma once

#include <memory>

#include "config/snapshot.h"
#include "serve/service.h"
#include "services/storage/announcer.h"
#include "services/storage/declarations.h"
#include "store/kv.h"
#include "store/object_store.h"

namespace cairn::storage {

struct AnnounceOptions {
  bool enabled = true;
  // Of its own keys the configuration gives the endpoints; the rest is for whoever makes the service. Without
  // a key nothing is announced.
  AnnouncerOptions announcer = {};
  std::string token_file = {};
  std::uint64_t changed_max = store::changed_capacity;  // changes that wait for the announcer
};

struct Options {
  std::vector<std::string> data_dirs;
  std::uint64_t segment_size = 256u << 20;
  std::uint64_t cache_bytes = 256u << 20;
  bool fsync = true;
  bool amnesia = false;
  Rate scrub_rate{20u << 20};
  Duration scrub_interval = Duration::seconds(7 * 24 * 3600);
  Duration uploads_ttl = Duration::seconds(24 * 3600);
  std::uint64_t uploads_max = 4096;
  std::uint64_t changes_max = store::changes_capacity;  // changes that wait for one data directory
  std::uint64_t reserve = 8u << 20;  // kept free in each directory for operations that free space
  std::uint64_t spare_files = 16;    // likewise; a start needs a few, and so does a merge of the index
  AnnounceOptions announce = {};
};
// The service's route table (routes.cpp).
std::span<const serve::RouteSpec> routes();

// `data`: the data directory when `storage.data_dirs` is not set.
Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data);

// `kv` outlives the service.
std::unique_ptr<serve::Service> make_service(Options options, store::KvMaker& kv, Keys keys);

}  // namespace cairn::storage
