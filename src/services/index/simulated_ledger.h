// For tests: a ledger of names on a simulated disk. Operations one at a time with run(), or together with
// start().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crypto/blake3.h"
#include "format/manifest.h"
#include "format/sample_registry.h"
#include "io/sim/world.h"
#include "services/index/home.h"
#include "services/index/port.h"
#include "store/log_kv.h"

namespace cairn::index {

inline ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }

// An address, the same for the same number.
inline Address sample_target(unsigned number) {
  return crypto::hash_object(as_bytes("target " + std::to_string(number)));
}
// A manifest's bytes, the same for the same number, with about so many entries.
inline std::string sample_manifest(unsigned number, unsigned entries = 1) {
  format::Manifest manifest;
  for (unsigned i = 0; i < entries; ++i)
    manifest.entries.push_back(
        {std::to_string(number) + '/' + std::to_string(i), sample_target(number), number, "text/plain"});
  return format::encode_manifest(std::move(manifest)).value();
}

class SimulatedLedger {
 public:
  explicit SimulatedLedger(std::uint64_t seed = 1, unsigned shards = 1, store::LogKvOptions kv = {})
      : world(seed), node(world.add_node("a", shards)), maker(kv), shards_(shards) {
    for (unsigned i = 0; i < shards; ++i) machines_.push_back(node.machine(i));
    options.directory = "index";
    options.reserve = 0;
    options.key = std::make_shared<const crypto::Ed25519Key>(format::sample_key(7));
  }
  ~SimulatedLedger() {
    stop();
    world.stop();
  }

  // --- running
  template <class T>
  static Task<> into(Task<T> task, std::shared_ptr<std::optional<T>> out) {
    out->emplace(co_await std::move(task));
  }
  template <class T>
  std::shared_ptr<std::optional<T>> start(Task<T> task, unsigned shard = 0) {
    auto out = std::make_shared<std::optional<T>>();
    Scope& scope = shard == 0 && operations_ ? *operations_ : node.scope(shard);
    scope.spawn("operation", into(std::move(task), out));
    return out;
  }
  template <class T>
  T wait(std::shared_ptr<std::optional<T>> out) {
    CHECK(world.run_until([&] { return out->has_value(); }));
    return std::move(**out);
  }
  template <class T>
  T run(Task<T> task, unsigned shard = 0) {
    return wait(start(std::move(task), shard));
  }
  Call call(unsigned shard = 0) {
    return shard == 0 && operations_ ? operations_->call() : node.scope(shard).call();
  }
  io::sim::SimDisk& disk() { return node.disk(); }
  io::Machine& machine(unsigned shard = 0) { return machines_[shard]; }

  // --- opening. Without the committer nothing changes the ledger; reads still work.
  Result<> open(bool with_committer = true) {
    stop();
    ledger = std::make_unique<Ledger>(options, maker);
    if (auto opened = run(ledger->open(call(), machines_[0], log)); !opened) {
      ledger.reset();
      return opened;
    }
    for (unsigned i = 0; i < shards_; ++i) ports.push_back(ledger->make_port(machines_[i]));
    operations_ = std::make_unique<Scope>(node.shard(), node.scope().call());
    tasks_ = std::make_unique<Scope>(node.shard(), node.scope().call());
    if (with_committer) tasks_->spawn("commit", home().committer().run(tasks_->call()));
    return {};
  }
  void start_tending() { tasks_->spawn("tend", home().tend(tasks_->call())); }
  // Kills the process now: operations under way are abandoned, the page cache stays. For one shard.
  void kill() {
    for (Scope* scope : {operations_.get(), tasks_.get()})
      if (scope != nullptr) scope->abort();
    CHECK(world.run_until(
        [&] { return (!operations_ || operations_->empty()) && (!tasks_ || tasks_->empty()); }));
    disk().abandon_operations();
    stop();
  }
  // Ends the process after its operations under way, without a flush.
  void stop() {
    end_tasks();
    ports.clear();
    ledger.reset();
    if (operations_) CHECK(world.run_until([&] { return operations_->empty(); }));
    operations_.reset();
  }
  Result<> close() {
    end_tasks();
    ports.clear();
    auto closed = run(ledger->close(call()));
    stop();
    return closed;
  }
  // Cuts the power: unsynced bytes may be lost. Then opens the ledger again.
  Result<> crash() {
    kill();
    disk().lose_unsynced();
    return open();
  }
  Home& home() { return ledger->home(); }
  Port& port(unsigned shard = 0) { return *ports[shard]; }
  bool is_open() const noexcept { return ledger != nullptr; }
  Status& status() { return ledger->status(); }

  // --- operations
  Task<Result<Outcome>> set_task(std::string name, unsigned target, http::WriteConditions conditions = {},
                                 unsigned shard = 0) {
    auto mutation = std::make_unique<Mutation>(Mutation::Kind::set_name);
    mutation->by = "tester";
    mutation->name = std::move(name);
    mutation->manifest = sample_target(target);
    mutation->note = "note " + std::to_string(target);
    mutation->conditions = std::move(conditions);
    return port(shard).submit(call(shard), std::move(mutation));
  }
  Result<Outcome> set(std::string name, unsigned target, http::WriteConditions conditions = {}) {
    return run(set_task(std::move(name), target, std::move(conditions)));
  }
  Task<Result<Outcome>> remove_task(std::string name, http::WriteConditions conditions = {},
                                    unsigned shard = 0) {
    auto mutation = std::make_unique<Mutation>(Mutation::Kind::remove_name);
    mutation->by = "tester";
    mutation->name = std::move(name);
    mutation->conditions = std::move(conditions);
    return port(shard).submit(call(shard), std::move(mutation));
  }
  Result<Outcome> remove(std::string name, http::WriteConditions conditions = {}) {
    return run(remove_task(std::move(name), std::move(conditions)));
  }
  Task<Result<Outcome>> put_manifest_task(std::string_view bytes, unsigned shard = 0) {
    auto mutation = std::make_unique<Mutation>(Mutation::Kind::put_manifest);
    mutation->manifest = crypto::hash_object(as_bytes(bytes));
    mutation->bytes = HeapBytes(bytes.size());
    mutation->bytes.append(as_bytes(bytes));
    return port(shard).submit(call(shard), std::move(mutation));
  }
  Result<Outcome> put_manifest(std::string_view bytes) { return run(put_manifest_task(bytes)); }
  // Nothing: it never was. A state without a manifest: it was removed.
  std::optional<NameState> find(std::string name, unsigned shard = 0) {
    return run(port(shard).find_name(call(shard), std::move(name)), shard).value();
  }
  Result<std::string> read_manifest(const Address& address, unsigned shard = 0) {
    TRY(const auto bytes, run(port(shard).read_manifest(call(shard), address), shard));
    return std::string(as_text(bytes->bytes()));
  }
  // All of them, by pages of `limit`.
  std::vector<ListedName> list(std::string prefix = "", std::size_t limit = 100) {
    std::vector<ListedName> all;
    for (std::string after;;) {
      auto page = run(port().list(call(), prefix, after, limit)).value();
      CHECK(page.names.size() <= limit);
      for (ListedName& one : page.names) {
        CHECK(all.empty() || all.back().name < one.name);
        all.push_back(std::move(one));
      }
      if (!page.next) return all;
      after = *page.next;
    }
  }
  std::vector<PastChange> history(std::string name, std::size_t limit = 100) {
    std::vector<PastChange> all;
    for (std::optional<std::uint64_t> below;;) {
      auto page = run(port().history(call(), name, below, limit));
      if (!page) return all;
      for (PastChange& one : page->changes) all.push_back(std::move(one));
      if (!page->next) return all;
      below = page->next;
    }
  }
  // Everything that the map holds, without how far it came in the log.
  std::vector<store::KvPair> map() {
    auto kv = ledger->make_kv(machines_[0]);
    auto all = run(kv->scan(call(), std::string(1, '\0'), "\x7f", 10'000'000)).value();
    std::erase_if(all, [](const store::KvPair& pair) { return pair.key == "L"; });
    return all;
  }

  io::sim::World world;
  io::sim::Node& node;
  LedgerOptions options;
  observe::Logger log;
  store::LogKvMaker maker;
  std::unique_ptr<Ledger> ledger;
  std::vector<std::unique_ptr<Port>> ports;

 private:
  void end_tasks() {
    if (!tasks_) return;
    tasks_->cancel(StopReason::draining);
    CHECK(world.run_until([&] { return tasks_->empty(); }));
    tasks_.reset();
  }

  unsigned shards_;
  std::vector<io::Machine> machines_;
  std::unique_ptr<Scope> operations_;  // on the first shard, while it is open
  std::unique_ptr<Scope> tasks_;
};

}  // namespace cairn::index
