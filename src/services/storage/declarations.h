// Everything storage declares: settings, routes, tasks, queues, locks, writers, gates. Each once.
#pragma once

#include "config/schema.h"
#include "config/server_keys.h"
#include "runtime/topology.h"
#include "serve/service.h"

namespace cairn::storage {

inline constexpr std::int64_t work_capacity = 512;
inline constexpr std::size_t workers_per_shard = 128;
// Bytes of bodies that may be on their way in at once, over all shards.
inline constexpr std::uint64_t ingest_bytes = 32u << 20;

struct Keys {
  config::ServerKeys server;
  config::Key<std::vector<std::string>> data_dirs;
  config::Key<Bytes> segment_size;
  config::Key<Bytes> cache_bytes;
  config::Key<bool> fsync;
  config::Key<Bytes> chunk_size;
  config::Key<Rate> scrub_rate;
  config::Key<Duration> uploads_ttl;
};
// Where it is when nobody says otherwise.
struct Defaults {
  bool alone = true;  // false: among other services of one process
  std::string bind = "127.0.0.1:7410";
  std::string uds_path = "";
};
Keys declare_keys(config::Schema& schema, const Defaults& where = {});

enum RouteIds : http::RouteId {
  get_object,
  put_object,
  delete_object,
  get_proof,
  list_objects,
  post_object,
  begin_upload,
  patch_upload,
  head_upload,
  delete_upload,
  commit_upload,
  put_pin,
  delete_pin,
  get_status,
  post_scrub,
  accept_loss
};

using http::Method;
using serve::Run;
inline constexpr serve::RouteSpec routes[] = {
    {{get_object, Method::get | Method::head, "/o/{address:Address}"},
     Run::at_once,
     false,
     "storage.get",
     true},
    {{put_object, Method::put, "/o/{address:Address}"}, Run::staged, true, "storage.put", false},
    {{delete_object, Method::del, "/o/{address:Address}"}, Run::queued, false, "storage.delete", false},
    {{get_proof, Method::get | Method::head, "/o/{address:Address}/proof"},
     Run::queued,
     false,
     "storage.get",
     true},
    {{list_objects, Method::get | Method::head, "/o"}, Run::queued, false, "storage.list", false},
    {{post_object, Method::post, "/o"}, Run::staged, true, "storage.put", false},
    {{begin_upload, Method::post, "/uploads"}, Run::staged, true, "storage.put", false},
    {{patch_upload, Method::patch, "/uploads/{id:Id}"}, Run::staged, true, "storage.put", false},
    {{head_upload, Method::head, "/uploads/{id:Id}"}, Run::queued, false, "storage.put", false},
    {{delete_upload, Method::del, "/uploads/{id:Id}"}, Run::queued, false, "storage.put", false},
    {{commit_upload, Method::post, "/uploads/{id:Id}/commit"}, Run::staged, true, "storage.put", false},
    {{put_pin, Method::put, "/pins/{address:Address}"}, Run::queued, false, "storage.pin", false},
    {{delete_pin, Method::del, "/pins/{address:Address}"}, Run::queued, false, "storage.pin", false},
    {{get_status, Method::get | Method::head, "/admin/status"}, Run::queued, false, "storage.admin", false},
    {{post_scrub, Method::post, "/admin/scrub"}, Run::queued, false, "storage.admin", false},
    {{accept_loss, Method::post, "/admin/accept-loss"}, Run::queued, false, "storage.admin", false},
};

inline constexpr serve::GateDeclaration gates[] = {
    {"store", true},          // the log was read and the index fits it
    {"writes", false},        // some data directory takes writes
    {"whole", false, false},  // nothing that was stored is known to be lost
    {"index", false, false},  // every data directory's index answers for all of its keys
};

extern const ServiceDeclaration declaration;

}  // namespace cairn::storage
