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
#include "services/index/asked.h"
#include "services/index/dht_target.h"
#include "services/index/port.h"
#include "services/index/service.h"
#include "services/index/wait_estimate.h"
#include "store/budget.h"

namespace cairn::index {

struct Metrics {
  observe::CounterFamily integrity;
  observe::CounterFamily refused_records;    // by RefusedRecord
  observe::HistogramFamily resolve_latency;  // by AskedFor
  observe::Histogram lookups;
  observe::Counter hits, misses, deadline_hits;
  void declare(observe::Registry& registry);
};

// The state that the shards share.
struct Shared {
  Options options;
  Keys keys;
  store::KvMaker& kv;
  io::DhtMaker& dht;
  Metrics metrics;
  store::ByteBudget ingest{ingest_bytes};
  // The bytes of a client's address are counted in the same slot as its requests.
  static_assert(serve::Shares::slots == store::ByteBudget::slots &&
                serve::Shares::Asker::none == store::Taker::none);
  std::unique_ptr<io::RamDisk> ram;  // instead of a disk, when nothing may be written to one
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<ProviderTable> providers;
  std::unique_ptr<Finders> finders;
  std::shared_ptr<io::DhtNode> dht_node;
  DhtRefused dht_refused;
  std::atomic<Publisher*> made_publisher{nullptr};  // as made_ledger
  // The same ledger for /metrics, which any shard may answer while shard 0 still makes it. A reader that
  // loads the pointer (acquire) sees the whole ledger (release). It lives until the service goes.
  std::atomic<Ledger*> made_ledger{nullptr};
};

// The reasons why a record of a provider is not taken, as labels.
enum class RefusedRecord : std::uint8_t { forged, expired, older, crowded };
enum class AskedFor : std::uint8_t { name, cid };

// What others say, but for what is known here to be over.
std::vector<SignedProvider> standing(const Answer& answer, const std::vector<KnownProvider>& known);

class IndexShard final : public serve::ServiceShard, public LookupEvents {
 public:
  IndexShard(Shared& shared, serve::ShardContext context);
  ~IndexShard() override;

  Task<Result<>> start(Call call) override;
  Task<> stop(Call call) override;
  void apply(const config::Snapshot& snapshot) override;
  static std::span<const serve::RouteSpec> routes();

 private:
  struct Incoming;  // a request's body, as far as it was read

  // --- resolve.cpp
  Result<bool> try_resolve(serve::Request& request);
  Result<bool> try_foreign(serve::Request& request, std::string name);
  Result<bool> try_address(serve::Request& request, const Address& address);
  Task<Result<>> resolve(Call call, serve::Request& request);
  Task<Result<>> resolve_address(Call call, serve::Request& request, Address address, bool fresh);
  Task<Result<>> answer_peer(Call call, serve::Request& request, Key key);
  Result<> answer_own(serve::Request& request, std::string_view name, const std::optional<NameState>& state);
  Result<> answer_foreign(serve::Request& request, std::string_view name, const Answer& answer,
                          std::string_view source, Duration age);
  void answer_name_at(serve::Request& request, std::string_view name, const Address& manifest,
                      std::uint64_t sequence, std::string_view source, Duration age);
  void answer_cid(serve::Request& request, const Address& address, std::string_view source, Duration age);
  // What others know, counted. Cancel: clean.
  Task<Result<Finder::Found>> find(Call call, Question question, bool fresh);
  void count_resolved(const serve::Request& request, AskedFor what) noexcept;
  // Refuses a job that would still wait when `left` is over.
  Result<> check_wait(Duration left);

  // --- providers.cpp
  Result<bool> try_providers(serve::Request& request);
  Task<Result<>> providers(Call call, serve::Request& request);
  Task<Result<>> take_announcement(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> announce(Call call, serve::Request& request, Incoming& incoming);
  Result<RankQuery> parse_rank_query(const serve::Request& request) const;
  void answer_providers(serve::Request& request, const RankQuery& query,
                        const std::vector<KnownProvider>& known, std::string_view winner, const Waves& waves);
  void answer_found(serve::Request& request, const RankQuery& query,
                    const std::vector<SignedProvider>& others, Duration age, std::string_view winner,
                    const Waves& waves);

  // --- names.cpp
  Result<bool> try_name(serve::Request& request);
  Task<Result<>> name(Call call, serve::Request& request);
  Task<Result<>> names(Call call, serve::Request& request);
  Result<> answer_name(serve::Request& request, std::string_view name, const std::optional<NameState>& state);
  Task<Result<>> history(Call call, serve::Request& request, std::string name);
  // `forbidden` where another key speaks for the name; `not_ready` while that is not known.
  Result<> check_own(std::string_view name) const;
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
  void show_writes();
  Targets make_targets(const Members& members);
  Task<Result<>> start_dht(Call call);
  Task<Result<>> open_dht(Call call, std::uint32_t network, Members& members);
  // Remembers the DHT's peers for the next start, now and then.
  Task<> keep_peers(Call call);
  Task<Result<>> take_newest(Call call, serve::Peer& registry);
  // Tells the publisher of what names lead to, and then runs it.
  Task<> publish(Call call);
  // Reads the registry's newest version again and again.
  Task<> follow_registry(Call call);
  void count_lost(std::string_view queue, std::uint64_t lost, std::uint64_t& counted);
  void ended(Duration took) noexcept override;
  void retried(const Target& target) noexcept override;
  void late(const Target& target) noexcept override;

  Shared& shared_;
  serve::ShardContext context_;
  io::Machine machine_;
  observe::Slot slot_;
  Policies policies_;
  std::unique_ptr<Port> port_;
  std::unique_ptr<ProviderPort> providers_;
  std::unique_ptr<Finder> finder_;
  std::unique_ptr<io::Dht> dht_;
  std::unique_ptr<ProviderPort> announced_;  // the publisher's way to the table
  std::unique_ptr<Publisher> publisher_;     // on the home shard
  std::optional<std::uint64_t> version_;     // of the registry, that was taken in
  WaitEstimate wait_;
  std::uint64_t learned_lost_ = 0, outcomes_lost_ = 0;
};

}  // namespace cairn::index
