// For tests: an object store on a simulated disk. Operations one at a time with run(), or together with
// start().
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crypto/outboard.h"
#include "io/sim/memory.h"
#include "io/sim/world.h"
#include "store/log_kv.h"
#include "store/object_home.h"
#include "store/object_store.h"
#include "store/store_port.h"

namespace cairn::store {

// Bytes that are the same for the same numbers, and no others.
inline std::string sample(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed * 1'000'003 + size);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return bytes;
}

inline Address address_of(std::string_view bytes) { return crypto::hash_object(as_bytes(bytes)); }
// What an index says, without how far it came in the log.
inline std::vector<KvPair> without_point(std::vector<KvPair> pairs) {
  std::erase_if(pairs, [](const KvPair& pair) { return pair.key == log_point_key(); });
  return pairs;
}
inline bool are_equal(const std::vector<KvPair>& a, const std::vector<KvPair>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const KvPair& left, const KvPair& right) {
    return left.key == right.key && left.value == right.value;
  });
}
inline ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }

class SimulatedStore {
 public:
  explicit SimulatedStore(std::uint64_t seed = 1, unsigned shards = 1, LogKvOptions kv_options = {})
      : world(seed), node(world.add_node("a", shards)), maker(kv_options), shards_(shards) {
    for (unsigned i = 0; i < shards; ++i) machines_.push_back(node.machine(i));
    options.directory = "data";
    options.segment_size = 16 << 20;
    options.reserve = 0;
    make_cache();
  }
  ~SimulatedStore() {
    stop();
    cache_.reset();
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
  T run(Task<T> task, unsigned shard = 0) {
    auto out = start(std::move(task), shard);
    CHECK(world.run_until([&] { return out->has_value(); }));
    return std::move(**out);
  }
  Call call(unsigned shard = 0) {
    return shard == 0 && operations_ ? operations_->call() : node.scope(shard).call();
  }
  io::sim::SimDisk& disk() { return node.disk(); }
  io::Machine& machine(unsigned shard = 0) { return machines_[shard]; }
  GroupCache& cache() { return *cache_; }
  void make_cache() {
    constexpr std::uint64_t capacity = GroupCache::least_capacity;
    cache_ = std::make_unique<GroupCache>(
        std::make_unique<io::sim::SimArena>(static_cast<std::size_t>(GroupCache::arena_bytes(capacity))),
        capacity);
  }

  // --- opening. Without the tasks nothing changes the store; reads go.
  Result<> open(bool with_tasks = true) {
    stop();
    store = std::make_unique<ObjectStore>(options, maker, *cache_);
    if (auto opened = run(store->open(call(), machines_[0], log)); !opened) {
      store.reset();
      return opened;
    }
    for (unsigned i = 0; i < shards_; ++i) ports.push_back(store->make_port(machines_[i]));
    operations_ = std::make_unique<Scope>(node.shard(), node.scope().call());
    if (with_tasks) {
      tasks_ = std::make_unique<Scope>(node.shard(), node.scope().call());
      tasks_->spawn("commit", store->home().committer().run(tasks_->call()));
    }
    return {};
  }
  // A process that is killed, now: what it was about to do is not done, the page cache stays. For one shard.
  void kill() {
    for (Scope* scope : {operations_.get(), tasks_.get()})
      if (scope != nullptr) scope->abort();
    CHECK(world.run_until([&] { return operations_->empty() && (!tasks_ || tasks_->empty()); }));
    disk().abandon_operations();
    stop();
  }
  // The same when it was doing nothing: nothing is flushed. Operations under way are waited for.
  void stop() {
    if (tasks_) {
      tasks_->cancel(StopReason::draining);
      CHECK(world.run_until([&] { return tasks_->empty(); }));
      tasks_.reset();
    }
    ports.clear();
    store.reset();
    if (operations_) CHECK(world.run_until([&] { return operations_->empty(); }));
    operations_.reset();
  }
  Result<> close() {
    if (tasks_) {
      tasks_->cancel(StopReason::draining);
      CHECK(world.run_until([&] { return tasks_->empty(); }));
      tasks_.reset();
    }
    ports.clear();
    auto closed = run(store->close(call()));
    stop();
    return closed;
  }
  Scope& tasks() { return *tasks_; }
  StorePort& port(unsigned shard = 0) { return *ports[shard]; }

  // --- operations
  Draft::Taken draft(std::string_view bytes, Address& address, std::string media_type = "text/plain") {
    Draft made(budget, 0);
    CHECK(made.add(as_bytes(bytes)));
    return made.take_object(std::move(media_type), address);
  }
  Task<Result<Outcome>> put_task(std::string_view bytes, unsigned shard = 0) {
    Address address;
    Draft::Taken taken = draft(bytes, address);
    return port(shard).put(call(shard), address, std::move(taken));
  }
  Result<Outcome> put(std::string_view bytes) { return run(put_task(bytes)); }
  Result<Outcome> begin(std::uint64_t size = 0, UploadOwner owner = {}) {
    return run(port().begin_upload(
        call(), {.size = size, .media_type = "text/plain", .ttl = {}, .owner = std::move(owner)}));
  }
  Task<Result<Outcome>> part_task(Ulid token, std::uint32_t index, std::string_view bytes,
                                  unsigned shard = 0) {
    Draft made(budget, index);
    CHECK(made.add(as_bytes(bytes)));
    PartRecord part;
    Draft::Taken taken = made.take_part(token, part);
    return port(shard).put_part(call(shard), std::move(part), std::move(taken));
  }
  Result<Outcome> part(Ulid token, std::uint32_t index, std::string_view bytes) {
    return run(part_task(token, index, bytes));
  }
  Result<Outcome> commit(Ulid token, std::optional<Address> address = {}) {
    return run(port().commit_upload(call(), token, address, ""));
  }
  Result<Outcome> abort(Ulid token) { return run(port().abort_upload(call(), token)); }
  Result<Outcome> remove(const Address& address) { return run(port().remove(call(), address)); }
  Result<Outcome> pin(const Address& address, bool pinned = true) {
    return run(port().pin(call(), address, pinned));
  }
  Result<std::optional<UploadState>> upload(Ulid token) { return run(port().upload_state(call(), token)); }

  // All of it; `not_found` when it is not there.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the port outlives its readers
  static Task<Result<std::string>> read_task(Call call, StorePort& port, Address address) {
    CO_TRY(const LocatedPtr object, co_await port.find(call, address));
    if (!object) co_return fail(ErrorCode::not_found, "no such object");
    std::string bytes;
    const std::uint64_t end = crypto::group_count(object->entry.size);
    ReadAhead ahead;
    for (std::uint64_t group = 0; group < end;) {
      CO_TRY(const GroupBytes read, co_await port.read_groups(call, object, group, end, &ahead));
      bytes.append(as_text(read.bytes()));
      group += crypto::group_count(read.bytes().size());
    }
    co_return bytes;
  }
  Result<std::string> read(const Address& address, unsigned shard = 0) {
    return run(read_task(call(shard), port(shard), address), shard);
  }
  std::vector<Listed> list() {
    auto listed = run(port().list(call(), "", std::nullopt, 1'000'000));
    CHECK(listed);
    return std::move(*listed);
  }
  // Rounds of compaction until there is nothing to do; how many did something.
  Result<unsigned> compact() {
    for (unsigned rounds = 0;; ++rounds) {
      auto worked = run(store->home().compactor().compact_once(call()));
      if (!worked) return fail(worked.error());
      if (!*worked) return rounds;
    }
  }
  // Everything the index holds.
  std::vector<KvPair> index() {
    auto kv = store->index()->engine->make_port(machines_[0]);
    auto all = run(kv->scan(call(), std::string(1, '\0'), "\x7f", 10'000'000));
    CHECK(all);
    return std::move(*all);
  }
  void forget_cached(const std::vector<Address>& addresses) {
    for (const Address& address : addresses) cache_->erase(address);
  }

  io::sim::World world;
  io::sim::Node& node;
  LogKvMaker maker;
  StoreOptions options;
  ByteBudget budget{std::uint64_t{1} << 32};
  observe::Logger log;
  std::unique_ptr<ObjectStore> store;
  std::vector<std::unique_ptr<StorePort>> ports;

 private:
  unsigned shards_;
  std::vector<io::Machine> machines_;
  std::unique_ptr<GroupCache> cache_;
  std::unique_ptr<Scope> operations_;  // on the first shard, while it is open
  std::unique_ptr<Scope> tasks_;
};

}  // namespace cairn::store
