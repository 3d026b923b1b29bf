// For tests: a registry on a simulated disk, with signers named by numbers. Operations one at a time with
// run(), or together with start().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/sample_registry.h"
#include "io/sim/world.h"
#include "services/registry/files.h"
#include "services/registry/home.h"
#include "services/registry/port.h"
#include "services/registry/verify_directory.h"

namespace cairn::registry {

inline ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }

inline std::string sample_region(unsigned number) {
  return format::sample_item(R"({"type":"region","id":"region-)" + std::to_string(number) + R"("})");
}

// The genesis, items and keys that a registry begins with. Making them costs signatures, so many registries
// can share one.
struct Founding {
  explicit Founding(unsigned m = 1, std::vector<unsigned> signers = {1}, unsigned regions = 0)
      : m_(m), signers_(std::move(signers)) {
    std::vector<std::string> more;
    for (unsigned i = 0; i < regions; ++i) more.push_back(sample_region(i));
    genesis = format::SampleRegistry(m_, signers_, std::move(more)).versions.front();
    items = format::decode_descriptor_set(as_bytes(genesis.payload)).value().items;
    log_key = std::make_shared<const crypto::Ed25519Key>(format::sample_key(999));
    roots.genesis_payload_b3 = crypto::hash_object(as_bytes(genesis.payload));
    roots.genesis_commit_b3 = format::commit_b3(as_bytes(genesis.commit));
    roots.log_key =
        crypto::format_verifier_key({format_address(roots.genesis_payload_b3), log_key->public_key()});
  }
  unsigned m() const noexcept { return m_; }
  const std::vector<unsigned>& signers() const noexcept { return signers_; }

  format::Genesis genesis;
  std::vector<std::string> items;  // of genesis
  std::shared_ptr<const crypto::Ed25519Key> log_key;
  format::TrustRoots roots;

 private:
  unsigned m_;
  std::vector<unsigned> signers_;
};

class SimulatedRegistry {
 public:
  explicit SimulatedRegistry(const Founding& founding = Founding(), std::uint64_t seed = 1,
                             unsigned shards = 1)
      : world(seed), node(world.add_node("a", shards)), founding_(founding), shards_(shards) {
    for (unsigned i = 0; i < shards; ++i) machines_.push_back(node.machine(i));
    options.directory = "registry";
    options.reserve = 0;
    options.genesis = founding_.genesis;
    options.log_key = founding_.log_key;
  }
  ~SimulatedRegistry() {
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

  // --- opening. Without the committer nothing changes the registry; reads still work.
  Result<> open(bool with_committer = true) {
    stop();
    registry = std::make_unique<Registry>(options);
    if (auto opened = run(registry->open(call(), machines_[0], log)); !opened) {
      registry.reset();
      return opened;
    }
    for (unsigned i = 0; i < shards_; ++i) ports.push_back(registry->make_port(machines_[i]));
    operations_ = std::make_unique<Scope>(node.shard(), node.scope().call());
    tasks_ = std::make_unique<Scope>(node.shard(), node.scope().call());
    if (with_committer) tasks_->spawn("commit", home().committer().run(tasks_->call()));
    return {};
  }
  // Starts the home's other tasks. Tests that do not start them run single rounds.
  void start_tasks() {
    tasks_->spawn("sweep", home().proposal_expiry().run(tasks_->call()));
    tasks_->spawn("checkpoint", home().checkpointer().run(tasks_->call()));
    tasks_->spawn("prune", home().pruner().run(tasks_->call()));
    tasks_->spawn("verify", home().verifier().run(tasks_->call()));
  }
  // Kills the process now: operations under way are abandoned, the page cache stays. For one shard.
  void kill() {
    for (Scope* scope : {operations_.get(), tasks_.get()})
      if (scope != nullptr) scope->abort();
    CHECK(world.run_until([&] { return operations_->empty() && tasks_->empty(); }));
    disk().abandon_operations();
    stop();
  }
  // Ends the process after its operations under way, without a flush.
  void stop() {
    end_tasks();
    deliver_mail();
    ports.clear();
    registry.reset();
    if (operations_) CHECK(world.run_until([&] { return operations_->empty(); }));
    operations_.reset();
  }
  Result<> close() {
    end_tasks();
    deliver_mail();
    ports.clear();
    auto closed = run(registry->close(call()));
    stop();
    return closed;
  }
  // Cuts the power: unsynced bytes may be lost. Then opens the registry again.
  Result<> crash() {
    kill();
    disk().lose_unsynced();
    return open();
  }
  Home& home() { return registry->home(); }
  Port& port(unsigned shard = 0) { return *ports[shard]; }
  bool is_open() const noexcept { return registry != nullptr; }
  Status& status() { return registry->status(); }
  template <class F>
  auto ledger(F&& look) {
    return registry->ledger().with(std::forward<F>(look));
  }
  Head head() {
    return ledger([](Ledger& l) { return l.head(); });
  }
  std::uint64_t size() {
    return ledger([](Ledger& l) { return l.size(); });
  }
  std::map<std::uint64_t, std::string> bad() {
    return ledger([](Ledger& l) { return l.bad(); });
  }
  // Moves the node's wall clock forward or back.
  void move_clock(Duration by) {
    skew_ = Duration{skew_.ns + by.ns};
    world.set_clock_skew(node, skew_);
  }
  WallTime wall() { return node.shard().wall(); }

  // --- operations
  const Founding& founding() const noexcept { return founding_; }
  // The items of genesis and these regions: a small change.
  std::vector<std::string> with_regions(const std::vector<unsigned>& numbers) const {
    std::vector<std::string> items = founding_.items;
    for (const unsigned number : numbers) items.push_back(sample_region(number));
    return items;
  }
  static format::ProposalDraft draft_of(std::vector<std::string> items) {
    format::ProposalDraft draft;
    draft.items = std::move(items);
    return draft;
  }
  Task<Result<Outcome>> propose_task(format::ProposalDraft draft, unsigned shard = 0) {
    return port(shard).propose(call(shard), "proposer", std::move(draft));
  }
  Result<Outcome> propose(std::vector<std::string> items) {
    return run(propose_task(draft_of(std::move(items))));
  }
  format::Approval sign(const Address& payload_b3, unsigned signer) {
    return format::sign_approval(format::sample_key(signer), format::sample_signer_id(signer), payload_b3,
                                 wall());
  }
  Task<Result<Outcome>> approve_task(Ulid id, format::Approval approval, unsigned shard = 0) {
    return port(shard).approve(call(shard), "approver", id, std::move(approval));
  }
  Result<Outcome> approve(Ulid id, const Address& payload_b3, unsigned signer) {
    return run(approve_task(id, sign(payload_b3, signer)));
  }
  Result<Outcome> approve(const Outcome& proposed, unsigned signer) {
    return approve(proposed.id, proposed.payload_b3, signer);
  }
  Task<Result<Outcome>> commit_task(Ulid id, bool supersede = false, unsigned shard = 0) {
    return port(shard).commit(call(shard), "committer", id, supersede);
  }
  Result<Outcome> commit(Ulid id, bool supersede = false) { return run(commit_task(id, supersede)); }
  // Proposes, approves and commits. Without `approvers` the first m signers of genesis approve.
  Result<Outcome> advance(format::ProposalDraft draft, std::vector<unsigned> approvers = {}) {
    const bool supersede = draft.supersede_of.has_value();
    TRY(const Outcome proposed, run(propose_task(std::move(draft))));
    if (approvers.empty())
      approvers.assign(founding_.signers().begin(), founding_.signers().begin() + founding_.m());
    for (const unsigned signer : approvers) TRY_VOID(approve(proposed, signer));
    return commit(proposed.id, supersede);
  }
  Result<Outcome> advance(std::vector<std::string> items, std::vector<unsigned> approvers = {}) {
    return advance(draft_of(std::move(items)), std::move(approvers));
  }
  // Commits a version that differs in every region, so its list stands alone and retention can cut before it.
  Result<Outcome> advance_in_full(unsigned number) {
    return advance(with_regions({number, number + 1, number + 2, number + 3}));
  }
  Result<ArtifactPtr> read(std::uint64_t version, unsigned shard = 0) {
    return run(port(shard).read_version(call(shard), version), shard);
  }
  Result<> checkpoint() { return run(home().checkpointer().run_once(call())); }
  Result<bool> prune() { return run(home().pruner().run_once(call())); }
  Result<> sweep() { return run(home().proposal_expiry().run_once(call())); }
  Result<> snapshot() { return run(home().snapshots().write(call())); }
  // Runs the verifier until it reaches the head.
  Result<> verify() {
    for (;;) {
      TRY(const bool done, run(home().verifier().verify_some(call(), 64)));
      if (done) return {};
    }
  }
  Result<VerifyReport> verify_files() {
    return run(verify_directory(call(), machines_[0], options.directory, founding_.roots));
  }
  std::string file(std::string_view name) {
    return disk().view().text(options.directory + "/" + std::string(name));
  }

  io::sim::World world;
  io::sim::Node& node;
  RegistryOptions options;
  observe::Logger log;
  std::unique_ptr<Registry> registry;
  std::vector<std::unique_ptr<Port>> ports;

 private:
  void end_tasks() {
    if (!tasks_) return;
    tasks_->cancel(StopReason::draining);
    CHECK(world.run_until([&] { return tasks_->empty(); }));
    tasks_.reset();
  }
  // Delivers the heads that are on their way to ports, before the ports go.
  void deliver_mail() {
    if (!registry) return;
    CHECK(world.run_until([&] {
      for (unsigned i = 0; i < shards_; ++i)
        if (node.mailbox(i).has_mail()) return false;
      return true;
    }));
  }

  Founding founding_;
  unsigned shards_;
  Duration skew_{};
  std::vector<io::Machine> machines_;
  std::unique_ptr<Scope> operations_;  // on the first shard, while it is open
  std::unique_ptr<Scope> tasks_;
};

}  // namespace cairn::registry
