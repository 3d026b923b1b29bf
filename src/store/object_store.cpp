#include "store/object_store.h"

#include "store/object_home.h"
#include "store/store_port.h"

namespace cairn::store {

ObjectStore::ObjectStore(StoreOptions options, KvMaker& kv, GroupCache& cache)
    : options_(std::move(options)), kv_maker_(kv), cache_(cache), pending_(options_.pending_max) {}
ObjectStore::~ObjectStore() = default;

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): machines outlive the store
Task<Result<>> ObjectStore::open(Call call, io::Machine& machine, observe::Logger log) {
  home_mailbox_ = &machine.mailbox;
  status_.home = machine.shard.index();
  // The directory may be there or not; making the two below it tells if it cannot be used.
  const auto made = co_await machine.disk.make_directory(call, options_.directory);
  const std::size_t slash = options_.directory.find_last_of('/');
  const std::string parent = slash == std::string::npos ? "." : options_.directory.substr(0, slash + 1);
  const auto synced = co_await machine.disk.sync_directory(call, parent);
  // A directory that was there before may be another user's, in a place that we may not read.
  if (made && !synced) co_return fail(synced.error());
  home_ = std::make_unique<ObjectHome>(*this, machine, log);
  co_return co_await home_->open(call);
}

Task<Result<>> ObjectStore::close(Call call) {
  if (!home_) co_return Result<>{};
  const Result<> closed = co_await home_->close(call);
  if (const auto index = this->index()) {
    // NOLINTNEXTLINE(bugprone-unused-local-non-trivial-variable): closed whatever the log said
    Task<Result<>> closing = index->engine->close(call, home_->machine());
    if (auto flushed = co_await std::move(closing); !flushed && closed) co_return flushed;
  }
  co_return closed;
}

std::unique_ptr<StorePort> ObjectStore::make_port(io::Machine& machine) {
  return std::make_unique<StorePort>(*this, machine);
}

void ObjectStore::ask_for_scrub() {
  // A full mailbox drops the request; the caller may ask again.
  (void)home_mailbox_->try_post_call([this] { home_->scrubber().start_scrub(); });
}

void ObjectStore::ask_to_accept_losses() {
  (void)home_mailbox_->try_post_call([this] { home_->sweeper().start_accepting(); });
}

void ObjectStore::set_index(std::shared_ptr<OpenIndex> index) {
  const std::uint64_t number = index == nullptr ? index_number() : index->number;
  index_.with([&](std::shared_ptr<OpenIndex>& open) { open = std::move(index); });
  index_number_.store(number, std::memory_order_release);
}

void ObjectStore::distrust_index(std::uint64_t number) noexcept {
  if (number == index_number()) status_.index_damaged = true;
}

template <class F>
void ObjectStore::tell_ports(F tell) {
  const auto ports = ports_->with([](PortList& list) { return list.ports; });
  for (const auto& [port, mailbox] : ports) {
    (void)mailbox->try_post_call([all = ports_, port, tell] {
      const bool there = all->with([&](PortList& list) {
        for (const auto& one : list.ports)
          if (one.first == port) return true;
        return false;
      });
      if (there) tell(*port);
    });
  }
}

// A full mailbox only keeps a file open a little longer: the port's limit on open files closes it in the end.
void ObjectStore::forget_segment(std::uint32_t segment) {
  tell_ports([segment](StorePort& port) { port.forget_segment(segment); });
}

void ObjectStore::renew_index_ports() {
  tell_ports([](StorePort& port) { port.renew_index(); });
}

}  // namespace cairn::store
