// IndexShard: the index on one shard: parses, answers, and hands the rest to its port.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "http/field_list.h"
#include "http/query.h"
#include "io/ram_disk.h"
#include "observe/metric.h"
#include "serve/service.h"
#include "serve/shares.h"
#include "services/index/port.h"
#include "services/index/service.h"
#include "store/budget.h"

namespace cairn::index {

struct Metrics {
  observe::CounterFamily integrity;
  void declare(observe::Registry& registry);
};

// The state that the shards share.
struct Shared {
  Options options;
  Keys keys;
  store::KvMaker& kv;
  Metrics metrics;
  store::ByteBudget ingest{ingest_bytes};
  // The bytes of a client's address are counted in the same slot as its requests.
  static_assert(serve::Shares::slots == store::ByteBudget::slots &&
                serve::Shares::Asker::none == store::Taker::none);
  std::unique_ptr<io::RamDisk> ram;  // instead of a disk, when nothing may be written to one
  std::unique_ptr<Ledger> ledger;
  // The same ledger for /metrics, which any shard may answer while shard 0 still makes it. A reader that
  // loads the pointer (acquire) sees the whole ledger (release). It lives until the service goes.
  std::atomic<Ledger*> made_ledger{nullptr};
};

class IndexShard final : public serve::ServiceShard {
 public:
  IndexShard(Shared& shared, serve::ShardContext context);
  ~IndexShard() override;

  Task<Result<>> start(Call call) override;
  Task<> stop(Call call) override;
  static std::span<const serve::RouteSpec> routes();

 private:
  struct Incoming;  // a request's body, as far as it was read

  // --- resolve.cpp
  Result<bool> try_resolve(serve::Request& request);
  Task<Result<>> resolve(Call call, serve::Request& request);
  Task<Result<>> resolve_address(Call call, serve::Request& request, Address address);
  Result<> answer_resolved(serve::Request& request, std::string_view name,
                           const std::optional<NameState>& state);

  // --- names.cpp
  Result<bool> try_name(serve::Request& request);
  Task<Result<>> name(Call call, serve::Request& request);
  Task<Result<>> names(Call call, serve::Request& request);
  Result<> answer_name(serve::Request& request, std::string_view name, const std::optional<NameState>& state);
  // `raw`: the query behind `history`.
  Task<Result<>> history(Call call, serve::Request& request, std::string name, std::string_view raw);
  Task<Result<>> take_document(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> set_name(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> remove_name(Call call, serve::Request& request);

  // --- manifests.cpp
  Task<Result<>> take_manifest(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> put_manifest(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> manifest(Call call, serve::Request& request);

  // The bytes of a body, within the budget of all bodies. Cancel: clean.
  Task<Result<>> take_body(Call call, serve::Request& request, Incoming& incoming, std::size_t most);
  // Counts a change that found no place in its queue.
  std::unexpected<Error> turned_away(const Error& error);
  // Answers with what is wrong with a document, not only that it is malformed.
  static Result<> answer_malformed(serve::Request& request, const Error& error, const std::string& why);
  http::FieldLines freshness() const noexcept;  // of an answer that may change in seconds

  // --- service.cpp
  Task<> watch_gates(Call call);

  Shared& shared_;
  serve::ShardContext context_;
  io::Machine machine_;
  observe::Slot slot_;
  std::unique_ptr<Port> port_;
};

}  // namespace cairn::index
