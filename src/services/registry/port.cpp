#include "services/registry/port.h"

#include <algorithm>

#include "runtime/backoff.h"
#include "runtime/wait.h"
#include "services/registry/home.h"
#include "services/registry/render.h"
#include "services/registry/signatures.h"

namespace cairn::registry {
namespace {

constexpr std::size_t reads_at_once = 64;
constexpr int tries = 3;  // an item may be moved under a reader, and the disk may have a bad moment

}  // namespace

Port::Port(Registry& registry, io::Machine& machine)
    : registry_(registry),
      machine_(machine),
      files_(machine, registry.segment_directory()),
      reads_(machine.shard, reads_at_once),
      committed_(machine.shard, registry.options().channel_bound),
      feed_(std::make_shared<Feed>()) {
  feed_->port = this;
  feed_->deliver = [](MailItem& item) {
    auto& feed = static_cast<Feed&>(item);
    Feed::State news;
    feed.state.with([&](Feed::State& state) { std::swap(news, state); });
    const std::shared_ptr<Feed> self = std::move(news.posted);
    if (feed.port != nullptr) feed.port->take_news(std::move(news));
  };
  registry_.ports_.with([&](Registry::PortList& list) { list.ports.emplace_back(this, &machine.mailbox); });
  registry_.ledger().with([&](Ledger& ledger) {
    if (!ledger.empty()) told_ = ledger.head();
  });
}

Port::~Port() {
  registry_.ports_.with([&](Registry::PortList& list) {
    std::erase_if(list.ports, [this](const auto& one) { return one.first == this; });
  });
  feed_->port = nullptr;  // news still in the mailbox is dropped
}

// --- heads

std::size_t Port::coming() const {
  return feed_->state.with([](const Feed::State& state) { return state.heads.size(); });
}

void Port::push(const Head& head, Mailbox& to) {
  const bool post = feed_->state.with([&](Feed::State& state) {
    // The receiver sees the gap in the versions.
    if (state.heads.size() >= registry_.options().channel_bound) state.heads.erase(state.heads.begin());
    state.heads.push_back(head);
    return !std::exchange(state.posted, feed_);
  });
  if (post) to.post(*feed_);
}

void Port::push_gone(std::uint32_t segment, Mailbox& to) {
  const bool post = feed_->state.with([&](Feed::State& state) {
    state.gone.push_back(segment);
    return !std::exchange(state.posted, feed_);
  });
  if (post) to.post(*feed_);
}

void Port::take_news(Feed::State news) {
  for (const std::uint32_t segment : news.gone) files_.forget(segment);
  for (const Head& head : news.heads) {
    told_ = head;
    // The version before may now be superseded.
    if (head.version > 0) forget_version(head.version - 1);
    (void)committed_.send(head);
  }
  while (!waiting_.empty()) wake(waiting_.front());
}

Head Port::head() const {
  // No more versions than this shard was told of: its head is the newest.
  if (registry_.status_.versions.load(std::memory_order_acquire) <= told_.version + 1) return told_;
  return registry_.ledger().with([](Ledger& ledger) { return ledger.head(); });
}

Task<Result<Head>> Port::wait_past(Call call, std::uint64_t version) {
  for (;;) {
    const Head newest = head();
    if (newest.version > version) co_return newest;
    CO_TRY_VOID(co_await ListWait(call, waiting_, "the next version"));
  }
}

// --- reads

std::unexpected<Error> Port::rotten(std::uint64_t version, const char* why) {
  bool pruned = false;
  const bool fresh = registry_.ledger().with([&](Ledger& ledger) {
    // The bytes may be missing because retention took them meanwhile.
    pruned = version < ledger.first_kept();
    const bool known = pruned || ledger.bad().contains(version);
    if (!known) ledger.mark_bad(version, why);
    return !known;
  });
  if (pruned) return fail(ErrorCode::pruned, "this version is no longer kept", Side::client);
  if (fresh) ++registry_.status().bad;
  return fail(ErrorCode::integrity, why);
}

// A read error of the disk is remembered until a read succeeds. A record that retention took away is no such
// error, nor is a caller that gave up.
std::unexpected<Error> Port::note_failure(const Error& error) {
  if (error.code == ErrorCode::io_failed) registry_.status().reads_failed = true;
  return fail(error);
}

// The meta of a record. The caller checks it.
Task<Result<std::string>> Port::read_record(Call call, Place place) {
  auto opened = co_await files_.get(call, place.at.segment);
  if (!opened) co_return note_failure(opened.error());
  const auto file = std::move(*opened);
  auto memory = std::make_shared<HeapBytes>(place.meta_size);
  const std::uint64_t from = place.at.offset + store::record_header_size;
  auto got = file->try_read_into(from, memory->room());
  for (int attempt = 0; !got || *got < place.meta_size; ++attempt) {
    if (attempt > 0) {
      if (attempt == tries)
        co_return got ? fail(ErrorCode::integrity, "a record is cut off") : note_failure(got.error());
      ++registry_.status().backoffs;
      CO_TRY_VOID(co_await sleep_for(
          call, Duration::millis(50 + static_cast<std::int64_t>(machine_.shard.random().below(50)))));
    }
    CO_TRY(Permit permit, co_await reads_.acquire(call));
    got = co_await file->read_into(call, from, {memory->room(), memory});
    if (got && *got < place.meta_size) break;
  }
  if (*got < place.meta_size) co_return fail(ErrorCode::integrity, "a record is cut off");
  if (registry_.status().reads_failed) registry_.status().reads_failed = false;
  memory->fill(*got);
  co_return std::string(as_text(std::as_const(*memory).bytes()));
}

Task<Result<std::string>> Port::read_item(Call call, Hash hash) {
  for (int attempt = 0;; ++attempt) {
    const Place place = registry_.ledger().with([&](Ledger& ledger) {
      const ItemEntry* entry = ledger.find_item(hash);
      return entry == nullptr ? Place{} : entry->place;
    });
    if (place.meta_size == 0) co_return fail(ErrorCode::integrity, "an item is lost");
    auto bytes = co_await read_record(call, place);
    // Retention may have moved the item.
    if (!bytes && bytes.error().code == ErrorCode::not_found && attempt < tries) continue;
    if (!bytes) co_return bytes;
    if (crypto::hash_object(as_bytes(*bytes)).bytes != hash)
      co_return fail(ErrorCode::integrity, "an item does not match its hash");
    co_return bytes;
  }
}

Task<Result<std::string>> Port::read_payload(Call call, format::DescriptorSet set, std::vector<Hash> items,
                                             Address payload_b3) {
  set.items.reserve(items.size());
  for (const Hash& hash : items) {
    CO_TRY(std::string item, co_await read_item(call, hash));
    set.items.push_back(std::move(item));
  }
  std::string payload = format::encode(set);
  if (crypto::hash_object(as_bytes(payload)) != payload_b3)
    co_return fail(ErrorCode::integrity, "the payload does not match its hash");
  co_return payload;
}

// The items of a version whose list was written out in full.
Task<Result<std::vector<Hash>>> Port::read_list(Call call, std::uint64_t version, Address) {
  const Place place = registry_.ledger().with(
      [&](Ledger& ledger) { return version < ledger.size() ? ledger.version(version).payload : Place{}; });
  if (place.meta_size == 0) co_return fail(ErrorCode::integrity, "the list it refers to is lost");
  CO_TRY(const std::string meta, co_await read_record(call, place));
  ProposalRecord record;
  CO_TRY_VOID(decode(as_bytes(meta), record));
  auto items = record.list.base ? std::nullopt : expand(record.list, {});
  if (!items) co_return fail(ErrorCode::integrity, "the list it refers to is another");
  co_return std::move(*items);
}

Task<bool> Port::can_read(Call call) {
  if (!registry_.status().reads_failed) co_return true;
  const auto commit = co_await read_commit(call, head().version);
  co_return commit || commit.error().code == ErrorCode::integrity;
}

Task<Result<std::string>> Port::read_commit(Call call, std::uint64_t version) {
  struct Found {
    bool pruned = false;
    VersionEntry entry;
  };
  CO_TRY(const Found found, registry_.ledger().with([&](Ledger& ledger) -> Result<Found> {
    if (version >= ledger.size())
      return fail(ErrorCode::not_found, "there is no such version yet", Side::client);
    if (version < ledger.first_kept())
      return fail(ErrorCode::pruned, "this version is no longer kept", Side::client);
    return Found{false, ledger.version(version)};
  }));
  if (found.entry.commit.meta_size == 0)
    co_return fail(ErrorCode::integrity, "the commit is lost from the log");
  CO_TRY(const std::string meta, co_await read_record(call, found.entry.commit));
  CommitRecord record;
  if (!decode(as_bytes(meta), record) || format::commit_b3(as_bytes(record.commit)) != found.entry.commit_b3)
    co_return rotten(version, "the commit does not match its hash");
  co_return std::move(record.commit);
}

void Port::forget_version(std::uint64_t version) noexcept {
  const auto found = kept_.find(version);
  if (found == kept_.end()) return;
  const ArtifactPtr& artifact = *found->second;
  kept_size_ -= artifact->payload.size() + artifact->commit.size() + artifact->json.size();
  order_.erase(found->second);
  kept_.erase(found);
}

ArtifactPtr Port::find_version(std::uint64_t version) noexcept {
  if (version < registry_.status_.first_kept.load(std::memory_order_relaxed)) return nullptr;
  const auto found = kept_.find(version);
  if (found == kept_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return *found->second;
}

Task<Result<ArtifactPtr>> Port::read_version(Call call, std::uint64_t version) {
  CO_TRY(const auto artifact, co_await load_version(call, version));
  CO_TRY(artifact->json, render(*artifact));
  forget_version(version);
  order_.push_front(artifact);
  kept_[version] = order_.begin();
  kept_size_ += artifact->payload.size() + artifact->commit.size() + artifact->json.size();
  while (kept_size_ > kept_bytes && order_.size() > 1) forget_version(order_.back()->head.version);
  co_return ArtifactPtr(artifact);
}

Task<Result<std::shared_ptr<Artifact>>> Port::load_version(Call call, std::uint64_t version) {
  auto artifact = std::make_shared<Artifact>();
  CO_TRY(const VersionEntry entry, registry_.ledger().with([&](Ledger& ledger) -> Result<VersionEntry> {
    if (version >= ledger.size())
      return fail(ErrorCode::not_found, "there is no such version yet", Side::client);
    if (version < ledger.first_kept())
      return fail(ErrorCode::pruned, "this version is no longer kept", Side::client);
    if (ledger.bad().contains(version)) return fail(ErrorCode::integrity, "this version was found damaged");
    artifact->head = ledger.head_of(version);
    artifact->superseded = ledger.version(version).superseded;
    return ledger.version(version);
  }));
  const auto bad = [&](const Error& error) -> std::unexpected<Error> {
    // Retention removed its segment meanwhile.
    if (error.code == ErrorCode::not_found)
      return fail(ErrorCode::pruned, "this version is no longer kept", Side::client);
    if (error.code != ErrorCode::integrity) return fail(error);
    return rotten(version, error.context);
  };
  auto commit_meta = co_await read_record(call, entry.commit);
  if (!commit_meta) co_return bad(commit_meta.error());
  CommitRecord commit;
  if (!decode(as_bytes(*commit_meta), commit) ||
      format::commit_b3(as_bytes(commit.commit)) != entry.commit_b3)
    co_return rotten(version, "the commit does not match its hash");
  auto proposal_meta = co_await read_record(call, entry.payload);
  if (!proposal_meta) co_return bad(proposal_meta.error());
  ProposalRecord proposal;
  if (auto decoded = decode(as_bytes(*proposal_meta), proposal); !decoded) co_return bad(decoded.error());
  std::vector<Hash> base;
  if (proposal.list.base) {
    if (!base_ || base_version_ != *proposal.list.base) {
      auto list = co_await read_list(call, *proposal.list.base, entry.payload_b3);
      if (!list) co_return bad(list.error());
      base_ = std::make_shared<const std::vector<Hash>>(std::move(*list));
      base_version_ = *proposal.list.base;
    }
    base = *base_;
  }
  auto items = expand(proposal.list, base);
  if (!items) co_return rotten(version, "its list points nowhere");
  auto payload = co_await read_payload(call, std::move(proposal.set), std::move(*items), entry.payload_b3);
  if (!payload) co_return bad(payload.error());
  artifact->commit = std::move(commit.commit);
  artifact->payload = std::move(*payload);
  co_return artifact;
}

// --- changes

Task<Result<Outcome>> Port::propose(Call call, std::string who, format::ProposalDraft draft) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::propose);
  mutation->who = std::move(who);
  for (const std::string& item : draft.items)
    mutation->items.push_back(crypto::hash_object(as_bytes(item)).bytes);
  mutation->draft = std::move(draft);
  return submit(call, std::move(mutation), registry_.proposals_);
}

Task<Result<Outcome>> Port::approve(Call call, std::string who, Ulid id, format::Approval approval) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::approve);
  mutation->who = std::move(who);
  mutation->id = id;
  mutation->given.push_back(std::move(approval));
  check_signatures(registry_, *mutation);
  return submit(call, std::move(mutation), registry_.approvals_);
}

Task<Result<Outcome>> Port::commit(Call call, std::string who, Ulid id, bool supersede,
                                   std::vector<format::Approval> approvals) {
  auto mutation = std::make_unique<Mutation>(supersede ? Mutation::Kind::supersede : Mutation::Kind::commit);
  mutation->who = std::move(who);
  mutation->id = id;
  mutation->given = std::move(approvals);
  return submit(call, std::move(mutation), registry_.commits_);
}

Task<Result<Outcome>> Port::submit(Call call, std::unique_ptr<Mutation> mutation, Permits& queue) {
  return registry_.home_->committer().errands().ask(call, std::move(mutation), machine_.mailbox, &queue);
}

}  // namespace cairn::registry
