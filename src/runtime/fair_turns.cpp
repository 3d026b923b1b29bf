#include "runtime/fair_turns.h"

namespace cairn {

struct FairScheduler::Entry : DrrEntry, MailItem, EntryLink, PooledFrame {
  Entry(FairTurns& asked, DrrTenant& whose, DrrTenant& queue, std::uint32_t units) noexcept
      : from(asked), owner(whose) {
    tenant = &queue;
    cost = units;
    leaving.entry = this;
    owner.uses.fetch_add(1, std::memory_order_relaxed);
  }
  ~Entry() { owner.uses.fetch_sub(1, std::memory_order_release); }

  FairTurns& from;
  DrrTenant& owner;  // who asks; `tenant` is the queue: the owner's, or everyone's
  std::atomic<bool> has_place{true};
  Letter leaving;
  Error outcome{ErrorCode::ok, ""};  // belongs to home until the answer
  // --- of home
  bool at_home = false;  // it waits there
  bool in_order = false;
  // --- of the shard that asked
  WaitList waiting;
  bool told = false;
  bool orphan = false;  // its asker has left
  bool in_sched = false;
};

// Waits until something has happened that the scheduler has not looked at.
class FairScheduler::Rung : public ListWait {
 public:
  Rung(const Call& call, FairScheduler& of) noexcept : ListWait(call, of.bell_, "work"), of_(of) {}
  bool await_ready() noexcept { return of_.rung_ || ListWait::await_ready(); }
  [[nodiscard]] bool await_resume() const noexcept { return std::exchange(of_.rung_, false); }

 private:
  FairScheduler& of_;
};

// Precondition: no shard runs any more.
FairScheduler::~FairScheduler() {
  while (DrrTenant* tenant = noted_.load(std::memory_order_relaxed)) {
    noted_.store(tenant->next_noted, std::memory_order_relaxed);
    tenant->uses.fetch_sub(1, std::memory_order_relaxed);
  }
  CHECK(order_.depth() == 0 && arrived_.empty() && leaving_.empty());
}

Task<> FairScheduler::run(Call call) {
  ring();
  while (co_await Rung(call, *this)) {
    collect();
    dispatch();
  }
}

void FairScheduler::set_weight(DrrTenant& tenant, std::uint32_t weight) {
  touch();
  order_.set_weight(tenant, weight);
  ring();
}

// --- from any shard

bool FairScheduler::try_take_slot() noexcept {
  touch();
  std::uint64_t out = out_.load(std::memory_order_seq_cst);
  do {
    if (out >= slots()) return false;
  } while (!out_.compare_exchange_weak(out, out + 1, std::memory_order_seq_cst));
  return true;
}

void FairScheduler::free_slot(Mailbox& from) noexcept {
  touch();
  CHECK(out_.fetch_sub(1, std::memory_order_seq_cst) != 0);
  if (waiting() > 0) ring_home(from);
}

void FairScheduler::give_back(DrrTenant& tenant, Mailbox& from) noexcept {
  touch();
  DrrTenant& queue = queue_of(tenant);
  if (&queue != &tenant) queue.give_back();
  tenant.give_back();
  if (waiting() > 0 && !queue.noted.exchange(true, std::memory_order_acq_rel)) {
    queue.uses.fetch_add(1, std::memory_order_relaxed);
    queue.next_noted = noted_.load(std::memory_order_relaxed);
    while (!noted_.compare_exchange_weak(queue.next_noted, &queue, std::memory_order_release)) {
    }
  }
  free_slot(from);
}

bool FairScheduler::try_take_place(DrrTenant& owner) noexcept {
  touch();
  DrrTenant& tenant = queue_of(owner);
  const std::uint64_t limit = places_.limit();
  const std::uint64_t weight = tenant.weight();
  const std::uint64_t has = tenant.places.load(std::memory_order_relaxed);
  const std::uint64_t all =
      std::max(weight, weights_.load(std::memory_order_relaxed) + (tenant.depth() == 0 ? weight : 0));
  const bool below = has < std::max<std::uint64_t>(1, limit * weight / all);
  if (!below && places_.taken() >= limit / 2) return false;
  if (!places_.try_take(below && all > weight ? limit / 8 : 0)) return false;
  tenant.places.fetch_add(1, std::memory_order_relaxed);
  if (&owner != &tenant) owner.places.fetch_add(1, std::memory_order_relaxed);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

void FairScheduler::leave_place(Entry& entry) noexcept {
  touch();
  if (!entry.has_place.exchange(false, std::memory_order_relaxed)) return;
  entry.tenant->places.fetch_sub(1, std::memory_order_relaxed);
  if (&entry.owner != entry.tenant) entry.owner.places.fetch_sub(1, std::memory_order_relaxed);
  places_.give();
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

void FairScheduler::lend(std::uint64_t slots, Mailbox& from) noexcept {
  touch();
  slots_.fetch_add(slots, std::memory_order_seq_cst);
  if (waiting() > 0) ring_home(from);
}

void FairScheduler::take_away(std::uint64_t slots) noexcept {
  touch();
  slots_.fetch_sub(slots, std::memory_order_seq_cst);
}

void FairScheduler::ring_home(Mailbox& from) noexcept {
  if (&from == &mailbox_) return ring();
  if (bell_under_way_.exchange(true, std::memory_order_acq_rel)) return;
  bell_letter_.deliver = [](MailItem& item) {
    FairScheduler& self = *static_cast<Letter&>(item).of;
    (void)self.bell_under_way_.exchange(false, std::memory_order_acq_rel);
    self.ring();
  };
  mailbox_.post(bell_letter_);
}

void FairScheduler::send_home(MailItem& item, Mailbox& from) noexcept {
  if (&from == &mailbox_)
    item.deliver(item);
  else
    mailbox_.post(item);
}

// --- at home

void FairScheduler::arrive(MailItem& item) noexcept {
  Entry& entry = static_cast<Entry&>(item);
  FairScheduler& self = entry.from.scheduler_;
  entry.at_home = true;
  self.arrived_.push_back(entry);
  self.ring();
}

void FairScheduler::leave(MailItem& item) noexcept {
  auto& letter = static_cast<Letter&>(item);
  FairScheduler& self = letter.entry->from.scheduler_;
  self.leaving_.push_back(letter);
  self.ring();
}

void FairScheduler::ring() noexcept {
  touch();
  rung_ = true;
  while (!bell_.empty()) wake(bell_.front());
}

// Takes over what has happened on all shards since the last time.
void FairScheduler::collect() noexcept {
  touch();
  // Who has left goes first: an entry that came and left is never added, and a tenant that waits for nothing
  // else begins anew.
  while (!leaving_.empty()) {
    Letter& letter = leaving_.pop_front();
    forget(*letter.entry);
    letter.deliver = FairTurns::come_to_rest;
    send_back(letter, *letter.entry);
  }
  while (!arrived_.empty()) {
    Entry& entry = static_cast<Entry&>(arrived_.pop_front());
    order_.add(entry);
    entry.in_order = true;
  }
  DrrTenant* next = nullptr;
  for (DrrTenant* tenant = noted_.exchange(nullptr, std::memory_order_acquire); tenant != nullptr;
       tenant = next) {
    next = tenant->next_noted;
    (void)tenant->noted.exchange(false, std::memory_order_acq_rel);
    order_.returned(*tenant);
    tenant->uses.fetch_sub(1, std::memory_order_release);
  }
}

void FairScheduler::dispatch() noexcept {
  while (order_.depth() > 0 && try_take_slot()) {
    DrrEntry* next = order_.take_next(slots());
    if (next == nullptr) {
      out_.fetch_sub(1, std::memory_order_seq_cst);
      break;
    }
    auto& entry = static_cast<Entry&>(*next);
    if (&entry.owner != entry.tenant) count(entry.owner, entry.cost);
    answer(entry, {ErrorCode::ok, ""});
  }
  weights_.store(order_.weights(), std::memory_order_relaxed);
}

// A turn of one whose queue is everyone's.
void FairScheduler::count(DrrTenant& owner, std::uint32_t cost) noexcept {
  CHECK(owner.try_hold(~std::uint64_t{0}));
  owner.count_served(cost);
}

// The entry does not belong to home any more.
void FairScheduler::answer(Entry& entry, const Error& outcome) noexcept {
  leave_place(entry);
  entry.at_home = entry.in_order = false;
  entry.outcome = outcome;
  entry.deliver = FairTurns::come_back;
  send_back(entry, entry);
}

void FairScheduler::send_back(MailItem& item, Entry& entry) noexcept {
  if (&entry.from.mailbox_ == &mailbox_)
    item.deliver(item);
  else
    entry.from.mailbox_.post(item);
}

void FairScheduler::forget(Entry& entry) noexcept {
  if (!std::exchange(entry.at_home, false)) return;
  if (std::exchange(entry.in_order, false))
    order_.remove(entry);
  else
    static_cast<DrrEntry&>(entry).unlink();
}

// --- one shard's part

FairTurns::FairTurns(FairScheduler& scheduler, Shard& shard, Mailbox& mailbox, Size size, Told told)
    : scheduler_(scheduler),
      shard_(shard),
      mailbox_(mailbox),
      identity_(shard.new_identity()),
      size_(size),
      told_(std::move(told)),
      sched_(shard, size.sched, OverflowPolicy::drop_oldest) {}

// Precondition: no shard runs any more, and every asker has left.
FairTurns::~FairTurns() {
  while (sched_.try_recv()) {
  }
  while (!entries_.empty()) {
    Entry& entry = entries_.front();
    scheduler_.forget(entry);
    static_cast<Link&>(entry.leaving).unlink();
    end(entry);
  }
}

FairTurns::Grant::~Grant() {
  if (entry_ != nullptr) entry_->from.drop(*entry_);
}

Task<Result<Turn>> FairTurns::ask(Call call, Seeking seeking) {
  touch();
  if (closed_) co_return fail(ErrorCode::closed, "turn");
  if (!call.expired() && !call.stopped())
    if (auto turn = try_take(seeking)) co_return std::move(*turn);
  DrrTenant& owner = *seeking.tenant;
  // Before the place is taken: without memory nothing is to be given back.
  auto made = std::make_unique<Entry>(*this, owner, scheduler_.queue_of(owner), seeking.cost);
  if (!scheduler_.try_take_place(owner)) co_return fail(ErrorCode::busy, "work queue is full");
  Entry& entry = *made.release();
  entries_.push_back(entry);
  set_depth(depth_ + 1);
  entry.deliver = FairScheduler::arrive;
  scheduler_.send_home(entry, mailbox_);
  Result<> waited;
  if (!entry.told) waited = co_await ListWait(call, entry.waiting, "work queue");
  touch();
  if (!entry.told) {
    leave(entry);
    co_return fail(waited.error());
  }
  const Error outcome = entry.outcome;
  end(entry);
  if (outcome.code != ErrorCode::ok) co_return fail(outcome);
  Turn turn(*this, &owner);
  if (!waited) co_return fail(waited.error());
  // The deadline may have passed between the grant and this step.
  if (call.expired()) co_return fail(ErrorCode::timeout, "work queue");
  co_return turn;
}

std::optional<Turn> FairTurns::try_take(Seeking seeking) noexcept {
  touch();
  if (closed_ || scheduler_.waiting() > 0 || !scheduler_.try_take_slot()) return std::nullopt;  // FT-2
  DrrTenant& queue = scheduler_.queue_of(*seeking.tenant);
  const std::uint64_t most =
      queue.is_bounded ? DeficitRoundRobin::most_of(scheduler_.slots()) : ~std::uint64_t{0};
  if (!queue.try_hold(most)) {
    scheduler_.free_slot(mailbox_);
    return std::nullopt;
  }
  if (&queue == seeking.tenant)
    queue.count_served(seeking.cost);
  else
    FairScheduler::count(*seeking.tenant, seeking.cost);
  return Turn(*this, seeking.tenant);
}

struct FairTurns::Lent {
  explicit Lent(FairTurns& turns) noexcept : of(turns) {
    of.scheduler_.lend(of.size_.slots_each, of.mailbox_);
    if (of.told_.slots) of.told_.slots();
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    of.scheduler_.take_away(of.size_.slots_each);
    if (of.told_.slots) of.told_.slots();
  }
  FairTurns& of;
};

Task<> FairTurns::work(Call call) {
  const Lent lent(*this);
  for (;;) {
    auto grant = co_await sched_.recv(call);
    if (!grant) co_return;
    start(grant->take());
  }
}

void FairTurns::close() noexcept {
  touch();
  closed_ = true;
  sched_.close();
}

Task<Result<>> FairTurns::settle(Call call) {
  touch();
  while (!entries_.empty()) CO_TRY_VOID(co_await ListWait(call, settled_, "requests to leave the queue"));
  co_return Result<>{};
}

void FairTurns::give_back(DrrTenant* tenant) noexcept { scheduler_.give_back(*tenant, mailbox_); }

void FairTurns::come_back(MailItem& item) noexcept {
  Entry& entry = static_cast<Entry&>(item);
  FairTurns& self = entry.from;
  self.touch();
  const bool granted = entry.outcome.code == ErrorCode::ok;
  if (entry.orphan) {
    if (granted) self.scheduler_.give_back(entry.owner, self.mailbox_);
    return;  // its second letter ends it
  }
  if (!granted) return self.tell(entry, entry.outcome);
  entry.in_sched = true;
  (void)self.sched_.try_send(Grant(entry));  // closed: it is dropped
  self.show_sched();
}

void FairTurns::come_to_rest(MailItem& item) noexcept {
  Entry& entry = *static_cast<FairScheduler::Letter&>(item).entry;
  entry.from.end(entry);
}

void FairTurns::start(Entry& entry) noexcept {
  touch();
  show_sched();
  entry.in_sched = false;
  if (entry.orphan)
    end(entry);
  else
    tell(entry, entry.outcome);
}

void FairTurns::drop(Entry& entry) noexcept {
  touch();
  entry.in_sched = false;
  if (entry.orphan) return end(entry);
  scheduler_.give_back(entry.owner, mailbox_);
  if (told_.dropped) told_.dropped();
  tell(entry, {ErrorCode::degraded, "sched queue is full"});
}

void FairTurns::tell(Entry& entry, const Error& outcome) noexcept {
  set_depth(depth_ - 1);
  entry.outcome = outcome;
  CHECK(!std::exchange(entry.told, true));  // FT-3
  while (!entry.waiting.empty()) wake(entry.waiting.front());
}

void FairTurns::leave(Entry& entry) noexcept {
  set_depth(depth_ - 1);
  entry.orphan = true;
  scheduler_.leave_place(entry);
  // The scheduler has done with it. It ends when its place in `sched` comes up.
  if (entry.in_sched) return scheduler_.give_back(entry.owner, mailbox_);
  entry.leaving.deliver = FairScheduler::leave;
  scheduler_.send_home(entry.leaving, mailbox_);
}

void FairTurns::end(Entry& entry) noexcept {
  static_cast<EntryLink&>(entry).unlink();
  delete &entry;
  if (entries_.empty())
    while (!settled_.empty()) wake(settled_.front());
}

void FairTurns::set_depth(std::size_t depth) {
  depth_ = depth;
  if (told_.work) told_.work(depth);
}

void FairTurns::show_sched() {
  if (told_.sched) told_.sched(sched_.depth());
}

}  // namespace cairn
