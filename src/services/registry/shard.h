// RegistryShard: the registry on one shard: parses, answers, and hands the rest to its port.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "http/query.h"
#include "io/ram_disk.h"
#include "observe/metric.h"
#include "serve/service.h"
#include "serve/shares.h"
#include "services/registry/head_stream.h"
#include "services/registry/service.h"
#include "store/budget.h"

namespace cairn::registry {

struct Metrics {
  observe::CounterFamily integrity;
  observe::ObservedFamily reload_success, reload_fail;  // source; reason
  void declare(observe::Registry& registry);
};

// The state that the shards share.
struct Shared {
  Options options;
  Keys keys;
  Publish publish;
  Metrics metrics;
  store::ByteBudget ingest{ingest_bytes};
  // The bytes of a client's address are counted in the same slot as its requests.
  static_assert(serve::Shares::slots == store::ByteBudget::slots &&
                serve::Shares::Asker::none == store::Taker::none);
  std::unique_ptr<io::RamDisk> ram;  // instead of a disk, when nothing may be written to one
  std::unique_ptr<Registry> registry;
  // The same registry for /metrics, which any shard may answer while shard 0 still makes it. A reader that
  // loads the pointer (acquire) sees the whole registry (release). It lives until the service goes.
  std::atomic<Registry*> made_registry{nullptr};
};

class RegistryShard final : public serve::ServiceShard {
 public:
  RegistryShard(Shared& shared, serve::ShardContext context);
  ~RegistryShard() override;

  Task<Result<>> start(Call call) override;
  Task<> stop(Call call) override;
  void refused(const serve::Request& request, std::string_view op, const Error& error) override;
  void apply(const config::Snapshot& snapshot) override;
  std::vector<std::string> revoked_keys() override;
  static std::span<const serve::RouteSpec> routes();

 private:
  struct Incoming;  // a request's body, as far as it was read

  // --- reads.cpp
  bool try_head(serve::Request& request);
  Task<Result<>> wait_for_head(Call call, serve::Request& request);
  bool try_version(serve::Request& request);
  void answer_head(serve::Request& request);
  void answer_artifact(serve::Request& request, const ArtifactPtr& artifact);
  Result<> log_range(serve::Request& request);
  Result<> checkpoint(serve::Request& request);
  Result<> inclusion(serve::Request& request);
  Result<> consistency(serve::Request& request);
  Result<bool> try_tile(serve::Request& request);
  Task<Result<>> version(Call call, serve::Request& request);
  Task<Result<>> entries(Call call, serve::Request& request);
  Task<Result<>> proposals(Call call, serve::Request& request);
  Task<Result<>> proposal(Call call, serve::Request& request);
  Task<Result<>> audit(Call call, serve::Request& request);
  void answer_pruned(serve::Request& request);
  // A tree size from the query, which must be one that can be proved.
  Result<std::uint64_t> tree_size(const http::Query& query, std::string_view name);

  // --- head_stream.cpp
  Result<> stream(serve::Request& request);

  // --- writes.cpp
  Task<Result<>> take_document(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> read_document(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> propose(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> approve(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> commit(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> supersede(Call call, serve::Request& request, Incoming& incoming);
  void answer_committed(serve::Request& request, const Outcome& outcome);
  std::unexpected<Error> turned_away(const serve::Request& request, const Error& error,
                                     std::string_view queue);
  std::unexpected<Error> not_asked(const serve::Request& request, const Error& error);
  void note_refusal(const serve::Request& request, ErrorCode code);

  // --- gates.cpp
  Task<> watch_gates(Call call);
  Task<> watch_home(Call call);

  // --- service.cpp
  Task<> publish_loop(Call call);
  Task<Result<>> tell_bus(Head head);

  Shared& shared_;
  serve::ShardContext context_;
  io::Machine machine_;
  observe::Slot slot_;
  std::unique_ptr<Port> port_;
  // The answer for the head, rendered once.
  struct Rendered {
    std::uint64_t version = 0;
    std::string etag, json;
  };
  std::shared_ptr<const Rendered> head_;
  EventText event_{.append = &http::append_event};
  EventText message_{.append = &append_message};
  PublisherState publisher_;
  format::GoodKeys good_keys_;
  Instant looked_for_room_{};
};

}  // namespace cairn::registry
