#include "services/index/provider_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "runtime/wait.h"
#include "store/encoding.h"
#include "store/index_place.h"

namespace cairn::index {
namespace {

using store::FieldReader;
using store::FieldWriter;

constexpr char address_prefix = 'P';
constexpr std::size_t looked_up_per_turn = 32;
constexpr std::size_t sweep_page = 256;
constexpr Duration patience = Duration::seconds(10);
constexpr Duration sweep_period = Duration::seconds(1);
// The first walk after a start, which tells of everything that is here.
constexpr Duration first_sweep_period = Duration::millis(20);

std::string address_key(const Address& address) {
  return std::string(1, address_prefix).append(as_text(address.bytes));
}
std::string epoch_key() { return "E"; }
// There while the table is closed: nothing of it was lost.
std::string clean_key() { return "K"; }

// --- the records of one address, in the order of the nodes' keys

std::string encode(const std::vector<KnownProvider>& all) {
  FieldWriter out;
  for (const KnownProvider& one : all)
    out.number(static_cast<std::uint64_t>(one.heard.ms))
        .number(static_cast<std::uint16_t>(one.bytes.size()))
        .bytes(as_bytes(one.bytes));
  return out.take();
}

bool decode(ByteView value, std::vector<KnownProvider>& out) {
  FieldReader in(value);
  while (in.good() && in.left() > 0) {
    KnownProvider& one = out.emplace_back();
    std::uint64_t heard = 0;
    std::uint16_t size = 0;
    in.number(heard).number(size);
    if (!in.good() || size > in.left()) return false;
    one.heard = WallTime{static_cast<std::int64_t>(heard)};
    one.bytes.resize(size);
    in.bytes({reinterpret_cast<std::byte*>(one.bytes.data()), one.bytes.size()});
    auto record = format::read_provider_record(as_bytes(one.bytes));
    if (!record) return false;
    one.record = std::move(*record);
  }
  return in.complete();
}

void drop_expired(std::vector<KnownProvider>& all, WallTime now) {
  std::erase_if(all, [&](const KnownProvider& one) { return one.record.expiry <= now; });
}

enum class Taken : std::uint8_t { yes, older, crowded };

Taken take(std::vector<KnownProvider>& all, SignedProvider&& fresh, WallTime now) {
  drop_expired(all, now);
  const auto at = std::ranges::lower_bound(all, fresh.record.key, {},
                                           [](const KnownProvider& one) { return one.record.key; });
  const bool known = at != all.end() && at->record.key == fresh.record.key;
  if (known && at->record.sequence >= fresh.record.sequence) return Taken::older;  // PV-1
  if (!known && all.size() >= providers_max) return Taken::crowded;                // PV-2
  KnownProvider one{std::move(fresh), now};
  if (known)
    *at = std::move(one);
  else
    all.insert(at, std::move(one));
  return Taken::yes;
}

}  // namespace

bool any_stands(const std::vector<KnownProvider>& known) noexcept {
  return std::ranges::any_of(known, [](const KnownProvider& one) { return !one.record.is_withdrawal(); });
}

void drop_superseded(std::vector<SignedProvider>& providers, const std::vector<KnownProvider>& known) {
  std::erase_if(providers, [&](const SignedProvider& one) {
    return std::ranges::any_of(known, [&](const KnownProvider& other) {
      return other.record.key == one.record.key && other.record.sequence > one.record.sequence;
    });
  });
}

struct ProviderTable::Home {
  Home(ProviderTable& of, io::Machine& here, observe::Logger to)
      : table(of),
        machine(here),
        log(to),
        errands(here.shard, here.mailbox, {announced_full, "the index is closed"}) {}

  Task<Result<std::vector<KnownProvider>>> look_up(Call call, std::string key);
  Task<Result<Announced>> take_in(Call call, Announcement& announcement);

  ProviderTable& table;
  io::Machine& machine;
  observe::Logger log;
  std::unique_ptr<MapPort> kv;
  ErrandHome<Announcement> errands;
  std::string swept;  // the key behind which the sweep goes on; empty: it begins anew
};

ProviderTable::ProviderTable(std::string directory, std::uint64_t announced_most, store::KvMaker& kv)
    : directory_(std::move(directory)), kv_maker_(kv), announced_(announced_most) {}
ProviderTable::~ProviderTable() { home_.reset(); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the machine outlives the table
Task<Result<>> ProviderTable::open(Call call, io::Machine& machine, observe::Logger log) {
  const auto made = co_await machine.disk.make_directory(call, directory_);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  CO_TRY(const std::uint64_t number,
         co_await store::settle_index_place(call, machine, kv_maker_, directory_, log));
  const std::string place = store::index_path(directory_, number);
  auto opened = co_await kv_maker_.open(call, machine, place);
  if (!opened && opened.error().code == ErrorCode::integrity) {
    log.warn("the table of providers is damaged: nodes say everything again");
    CO_TRY_VOID(co_await kv_maker_.destroy(call, machine, place));
    opened = co_await kv_maker_.open(call, machine, place);
  }
  if (!opened) co_return fail(opened.error());
  engine_ = std::move(*opened);
  home_ = std::make_unique<Home>(*this, machine, log);
  home_->kv = std::make_unique<MapPort>(engine_->make_port(machine, Lane::index), status_.damaged);
  CO_TRY(const auto before, co_await home_->kv->get(call, epoch_key()));
  CO_TRY(const auto clean, co_await home_->kv->get(call, clean_key()));
  const auto known = before && clean ? parse_ulid(*before) : std::nullopt;
  std::array<std::uint64_t, 2> random{};
  machine.entropy.fill(std::as_writable_bytes(std::span(random)));
  epoch_ = known ? *known : make_ulid(machine.shard.wall(), random[0], random[1]);  // PV-3
  store::KvBatch batch;
  batch.put(epoch_key(), format_ulid(epoch_));
  batch.remove(clean_key());
  CO_TRY_VOID(co_await home_->kv->write(call, std::move(batch)));
  // Before anything is taken: a crash must not find the mark of a clean end.
  co_return co_await home_->kv->flush(call);
}

Task<> ProviderTable::keep(Call call) {
  Instant next_sweep = home_->machine.shard.now() + sweep_period;
  while (!call.stopped()) {
    (void)co_await home_->errands.arrived(call.by(next_sweep));
    while (Announcement* next = home_->errands.next()) {
      home_->errands.take(*next);
      next->result = co_await home_->take_in(call.within(patience), *next);
      home_->errands.answer(*next);
    }
    if (home_->machine.shard.now() < next_sweep) continue;
    if (auto swept = co_await sweep_some(call.within(patience), sweep_page); !swept && !status_.damaged)
      home_->log.warn("records that are over were not dropped", {{"why", swept.error().context}});
    if (status_.damaged)
      (void)co_await store::mark_index_damaged(call.within(patience), home_->machine, directory_);
    next_sweep = home_->machine.shard.now() + (first_walk_ ? first_sweep_period : sweep_period);
  }
}

Task<Result<std::vector<KnownProvider>>> ProviderTable::Home::look_up(Call call, std::string key) {
  auto found = kv->try_get(key);
  if (!found && found.error().code == ErrorCode::busy) found = co_await kv->get(call, std::move(key));
  if (!found) co_return fail(found.error());
  std::vector<KnownProvider> all;
  if (*found && !decode(as_bytes(**found), all))
    co_return fail(kv->distrust("an entry of the table does not decode"));
  co_return all;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): keep() waits for it
Task<Result<Announced>> ProviderTable::Home::take_in(Call call, Announcement& announcement) {
  Announced out;
  const WallTime now = machine.shard.wall();
  std::map<std::string, std::vector<KnownProvider>> changed;
  std::uint64_t fresh = 0;
  for (std::size_t i = 0; i < announcement.records.size(); ++i) {
    if (i % looked_up_per_turn == looked_up_per_turn - 1) co_await yield(call);
    SignedProvider& one = announcement.records[i];
    std::string key = address_key(one.record.address);
    auto at = changed.find(key);
    if (at == changed.end()) {
      CO_TRY(auto all, co_await look_up(call, key));
      // What the first walk has yet to come to, it counts.
      if (all.empty() && (!table.first_walk_ || key <= swept)) ++fresh;
      at = changed.emplace(std::move(key), std::move(all)).first;
    }
    switch (take(at->second, std::move(one), now)) {
      case Taken::yes:
        ++out.taken;
        break;
      case Taken::older:
        ++out.older;
        break;
      case Taken::crowded:
        ++out.crowded;
    }
  }
  store::KvBatch batch;
  batch.reserve(changed.size());
  for (const auto& [key, all] : changed) batch.put(key, encode(all));
  CO_TRY_VOID(co_await kv->make_ready(call));
  CO_TRY_VOID(co_await kv->write(call, std::move(batch)));
  table.status_.addresses += fresh;
  for (const auto& [key, all] : changed)
    if (!all.empty()) table.tell(all);
  co_return out;
}

Task<Result<>> ProviderTable::sweep_some(Call call, std::size_t most) {
  const std::string first(1, address_prefix), until(1, static_cast<char>(address_prefix + 1));
  std::string& swept = home_->swept;
  CO_TRY(const std::vector<store::KvPair> page,
         co_await home_->kv->scan(call, swept.empty() ? first : swept + '\0', until, most));
  const WallTime now = home_->machine.shard.wall();
  store::KvBatch batch;
  for (const store::KvPair& pair : page) {
    std::vector<KnownProvider> all;
    if (!decode(as_bytes(pair.value), all))
      co_return fail(home_->kv->distrust("an entry of the table does not decode"));
    const std::size_t before = all.size();
    drop_expired(all, now);
    if (!all.empty()) tell(all);
    if (first_walk_ && !all.empty()) ++status_.addresses;
    if (all.size() == before) continue;
    if (!all.empty()) {
      batch.put(pair.key, encode(all));
      continue;
    }
    batch.remove(pair.key);
    if (!first_walk_ && status_.addresses > 0) --status_.addresses;
  }
  if (!batch.empty()) CO_TRY_VOID(co_await home_->kv->write(call, std::move(batch)));
  if (page.size() < most) {
    swept.clear();
    first_walk_ = false;
  } else {
    swept = page.back().key;
  }
  co_return Result<>{};
}

void ProviderTable::tell(const std::vector<KnownProvider>& all) {
  if (told_ && any_stands(all)) told_(all.front().record.address);
}

Task<Result<>> ProviderTable::close(Call call) {
  home_->errands.close();
  store::KvBatch batch;
  batch.put(clean_key(), "");
  Result<> closed = co_await home_->kv->write(call, std::move(batch));
  io::Machine& machine = home_->machine;
  home_->kv.reset();
  if (auto flushed = co_await engine_->close(call, machine); !flushed && closed) closed = flushed;
  co_return closed;
}

std::unique_ptr<ProviderPort> ProviderTable::make_port(io::Machine& machine) {
  return std::make_unique<ProviderPort>(*this, machine);
}

ProviderPort::ProviderPort(ProviderTable& table, io::Machine& machine)
    : table_(table), machine_(machine), kv_(table.engine_->make_port(machine), table.status_.damaged) {}

Result<std::vector<KnownProvider>> ProviderPort::not_over(const std::optional<std::string>& found) {
  std::vector<KnownProvider> all;
  if (!found) return all;
  if (!decode(as_bytes(*found), all)) return fail(kv_.distrust("an entry of the table does not decode"));
  drop_expired(all, machine_.shard.wall());
  return all;
}

Result<std::vector<KnownProvider>> ProviderPort::try_find(const Address& address) {
  TRY(const auto found, kv_.try_get(address_key(address)));
  return not_over(found);
}

Task<Result<std::vector<KnownProvider>>> ProviderPort::find(Call call, Address address) {
  CO_TRY(const auto found, co_await kv_.get(call, address_key(address)));
  co_return not_over(found);
}

Task<Result<Announced>> ProviderPort::announce(Call call, std::vector<SignedProvider> records) {
  auto errand = std::make_unique<Announcement>();
  errand->records = std::move(records);
  return table_.home_->errands.ask(call, std::move(errand), machine_.mailbox, &table_.announced_);
}

}  // namespace cairn::index
