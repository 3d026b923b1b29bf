// Port: one shard's way to a registry: heads as they come, verified reads, and changes that are answered when
// durable.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/broadcast.h"
#include "runtime/semaphore.h"
#include "services/registry/mutation.h"
#include "services/registry/registry.h"

namespace cairn::registry {

// A version as it is kept: canonical bytes that were checked against their hashes.
struct Artifact {
  Head head;
  std::string commit, payload;
  bool superseded = false;
  std::string json;  // as it is answered
};
using ArtifactPtr = std::shared_ptr<const Artifact>;

class Port {
 public:
  Port(Registry& registry, io::Machine& machine);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  Registry& registry() noexcept { return registry_; }

  // --- heads
  // The newest there is: whoever was told of a commit finds it here, on every shard.
  Head head() const;
  // The newest that committed() has had.
  const Head& told() const noexcept { return told_; }
  // How many heads from version `next` on committed() has had. None when `next` is of a head that others know
  // of and this shard was not told yet.
  std::uint64_t told_since(std::uint64_t next) const noexcept {
    const std::uint64_t end = told_.version + 1;
    return end - std::min(next, end);
  }
  // Heads since it was made, in order. A slow receiver misses some and is told; those that a busy shard
  // missed are a gap in their versions.
  Broadcast<Head>& committed() noexcept { return committed_; }
  // Heads on their way to this shard.
  std::size_t coming() const;
  // Waits until the head is past `version`. Cancel: clean.
  Task<Result<Head>> wait_past(Call call, std::uint64_t version);

  // --- reads. Cancel: clean.
  // `not_found`, `pruned`, or `integrity` when its bytes do not match their hashes: it is marked as bad.
  Task<Result<ArtifactPtr>> read_version(Call call, std::uint64_t version);
  // The same from the disk, not to be kept or answered.
  Task<Result<std::shared_ptr<Artifact>>> load_version(Call call, std::uint64_t version);
  // From the memory of recent reads only.
  ArtifactPtr find_version(std::uint64_t version) noexcept;
  // The bytes of a pending proposal's payload.
  Task<Result<std::string>> read_payload(Call call, format::DescriptorSet set, std::vector<Hash> items,
                                         Address payload_b3);
  // Whether the disk can be read: asked of the head after a read failed.
  Task<bool> can_read(Call call);
  // The commit's bytes alone, checked.
  Task<Result<std::string>> read_commit(Call call, std::uint64_t version);

  // Of the audit trail, the oldest first: those behind the sequence `after`, or the newest ones.
  Task<Result<AuditPage>> read_audit(Call call, std::optional<std::uint64_t> after, std::uint64_t limit);

  // --- changes. Answered when durable. Cancel: partial — one that was begun may still be done.
  Task<Result<Outcome>> propose(Call call, std::string who, format::ProposalDraft draft);
  Task<Result<Outcome>> approve(Call call, std::string who, Ulid id, format::Approval approval);
  // `approvals` are taken in with it.
  Task<Result<Outcome>> commit(Call call, std::string who, Ulid id, bool supersede,
                               std::vector<format::Approval> approvals = {});
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation, Permits& queue);

 private:
  friend class Registry;
  // What the committer tells this shard. It outlives the port while it is in the mail.
  struct Feed : MailItem {
    Port* port = nullptr;  // of this shard; null when it is gone
    struct State {
      std::vector<Head> heads;
      std::vector<std::uint32_t> gone;  // segments
      std::shared_ptr<Feed> posted;     // itself
    };
    Guarded<State, feed_lock.rank> state;
  };
  void forget_version(std::uint64_t version) noexcept;
  void push(const Head& head, Mailbox& to);
  void push_gone(std::uint32_t segment, Mailbox& to);
  void take_news(Feed::State news);
  void take_signatures(Mutation& mutation, std::vector<format::Approval> approvals);
  Task<Result<std::string>> read_record(Call call, Place place);
  Task<Result<std::string>> read_item(Call call, Hash hash);
  Task<Result<std::vector<Hash>>> read_list(Call call, std::uint64_t version, Address payload_b3);
  std::unexpected<Error> rotten(std::uint64_t version, const char* why);
  std::unexpected<Error> note_failure(const Error& error);

  static constexpr std::uint64_t kept_bytes = 8u << 20;

  Registry& registry_;
  io::Machine& machine_;
  store::SegmentFiles files_;
  Semaphore reads_;
  Head told_;
  Broadcast<Head> committed_;
  WaitList waiting_;
  std::shared_ptr<Feed> feed_;
  // Recent versions, the least recently used goes first.
  std::list<ArtifactPtr> order_;
  std::unordered_map<std::uint64_t, std::list<ArtifactPtr>::iterator> kept_;
  std::uint64_t kept_size_ = 0;
  // The last lists that were written out in full.
  std::uint64_t base_version_ = 0;
  std::shared_ptr<const std::vector<Hash>> base_;
};

}  // namespace cairn::registry
