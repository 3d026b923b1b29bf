#include "store/store_set.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace cairn::store {
namespace {

std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}
std::uint64_t number_of(const Address& address) noexcept {
  std::uint64_t number = 0;
  std::memcpy(&number, address.bytes.data(), sizeof number);
  return number;
}
// By the directory's name and not its place in the list, so that adding a directory moves only the objects
// that go there.
std::uint64_t number_of(const std::string& directory) noexcept {
  std::uint64_t number = 0xcbf29ce484222325u;
  for (const char c : directory) number = (number ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return number;
}

}  // namespace

StoreSet::StoreSet(const std::vector<std::string>& directories, const StoreOptions& options, KvMaker& kv,
                   GroupCache& cache) {
  CHECK(!directories.empty());
  for (const std::string& directory : directories) {
    StoreOptions own = options;
    own.directory = directory;
    stores_.push_back(std::make_unique<ObjectStore>(std::move(own), kv, cache));
  }
}

bool StoreSet::takes_writes(Instant now) noexcept {
  return std::any_of(stores_.begin(), stores_.end(),
                     [now](const auto& store) { return store->takes_writes(now); });
}

bool StoreSet::whole() noexcept {
  return std::all_of(stores_.begin(), stores_.end(), [](const auto& one) { return one->status().whole(); });
}

bool StoreSet::index_damaged() noexcept {
  return std::any_of(stores_.begin(), stores_.end(),
                     [](const auto& store) { return store->status().index_damaged.load(); });
}

SetPort::SetPort(StoreSet& set, io::Machine& machine) {
  for (std::size_t i = 0; i < set.size(); ++i) ports_.push_back(set.at(i).make_port(machine));
}

template <class F>
StorePort* SetPort::preferred(std::uint64_t key, F suits) const {
  StorePort* best = nullptr;
  std::uint64_t best_score = 0;
  for (const auto& port : ports_) {
    if (!suits(port->store())) continue;
    const std::uint64_t score = mixed(key ^ number_of(port->store().options().directory));
    if (best != nullptr && score <= best_score) continue;
    best = port.get();
    best_score = score;
  }
  return best;
}

Task<Result<SetPort::Found>> SetPort::find(Call call, Address address) {
  std::optional<Error> bad;
  for (const auto& port : ports_) {
    auto object = co_await port->find(call, address);
    if (object && *object) co_return Found{port.get(), std::move(*object)};
    if (!object && (object.error().code == ErrorCode::cancelled || object.error().code == ErrorCode::timeout))
      co_return fail(object.error());
    if (!object) bad = object.error();
  }
  if (bad) co_return fail(*bad);
  co_return Found{};
}

Task<Result<std::size_t>> SetPort::remove(Call call, Address address) {
  std::size_t removed = 0;
  for (const auto& port : ports_) {
    // A store that cannot write does not stand in the way of a store that has the object.
    if (auto there = co_await port->find(call, address); there && !*there) continue;
    auto gone = co_await port->remove(call, address);
    if (!gone && gone.error().code != ErrorCode::not_found) co_return fail(gone.error());
    if (gone) ++removed;
  }
  co_return removed;
}

Task<Result<std::size_t>> SetPort::pin(Call call, Address address, bool pinned) {
  std::size_t done = 0;
  for (const auto& port : ports_) {
    if (auto there = co_await port->find(call, address); there && !*there) continue;
    auto set = co_await port->pin(call, address, pinned);
    if (!set && set.error().code != ErrorCode::not_found) co_return fail(set.error());
    if (set) ++done;
  }
  co_return done;
}

Task<Result<StorePort*>> SetPort::for_put(Call call, Address address) {
  StorePort* bad = nullptr;
  for (const auto& port : ports_) {
    if (ports_.size() == 1) break;
    auto there = co_await port->find(call, address);
    if (there && *there) co_return port.get();
    if (there) continue;
    if (there.error().code != ErrorCode::integrity) co_return fail(there.error());
    bad = port.get();
  }
  // Good bytes go to the store with the bad ones, and replace them.
  if (bad != nullptr && bad->store().writable()) co_return bad;
  co_return for_write(number_of(address));
}

Result<StorePort*> SetPort::for_write(std::uint64_t random) {
  StorePort* port = preferred(random, [](ObjectStore& store) { return store.writable(); });
  // A full store refuses the write itself: room may be there again.
  if (port == nullptr) port = preferred(random, [](ObjectStore& store) { return !store.status().fenced; });
  if (port == nullptr) return fail(ErrorCode::degraded, "writes are fenced until the next start");
  return port;
}

Task<Result<SetPort::Begun>> SetPort::begin_upload(Call call, std::uint64_t random, NewUpload upload) {
  CO_TRY(StorePort* const first, for_write(random));
  std::vector<StorePort*> all{first};
  for (const auto& port : ports_)
    if (port.get() != first && port->store().writable()) all.push_back(port.get());
  std::optional<Error> full;
  // No upload is ended as long as there is room elsewhere.
  for (const bool ends_idle : {false, true}) {
    for (StorePort* const port : all) {
      if (ends_idle && upload.size == 0) break;
      if (ends_idle) {
        CO_TRY(const Outcome ended, co_await port->end_idle_uploads(call, upload.size));
        if (ended.size == 0) continue;
      }
      auto began = co_await port->begin_upload(call, upload);
      if (began) co_return Begun{port, std::move(*began)};
      if (began.error().code != ErrorCode::storage_full) co_return fail(began.error());
      full = began.error();
    }
  }
  co_return fail(*full);
}

Task<Result<SetPort::FoundUpload>> SetPort::find_upload(Call call, Ulid token) {
  for (const auto& port : ports_) {
    CO_TRY(auto entry, co_await port->find_upload(call, token));
    if (entry) co_return FoundUpload{port.get(), std::move(*entry)};
  }
  co_return fail(ErrorCode::not_found, "no such upload", Side::client);
}

Task<Result<std::vector<Listed>>> SetPort::list(Call call, std::string prefix, std::optional<Address> after,
                                                std::size_t limit) {
  std::vector<Listed> all;
  for (const auto& port : ports_) {
    CO_TRY(const auto some, co_await port->list(call, prefix, after, limit));
    all.insert(all.end(), some.begin(), some.end());
  }
  if (ports_.size() > 1) {
    // Of several copies a good one is told of.
    std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
      return std::tie(a.address, a.quarantined) < std::tie(b.address, b.quarantined);
    });
    all.erase(std::unique(all.begin(), all.end(),
                          [](const Listed& a, const Listed& b) { return a.address == b.address; }),
              all.end());
    if (all.size() > limit) all.resize(limit);
  }
  co_return all;
}

}  // namespace cairn::store
