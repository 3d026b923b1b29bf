// Port: one shard's way to a registry: heads as they come, verified reads, and changes, answered when
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

// A version's canonical bytes, checked against their hashes.
struct Artifact {
  Head head;
  std::string commit, payload;
  bool superseded = false;
  std::string json;  // the answer to a reader
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
  // The newest head there is: after a commit was answered, every shard finds that head or a later one here.
  Head head() const;
  // The newest head that was sent to committed().
  const Head& told() const noexcept { return told_; }
  // How many heads from version `next` on were sent to committed(). 0 when this shard was not told of `next`
  // yet, although other shards may know it.
  std::uint64_t told_since(std::uint64_t next) const noexcept {
    const std::uint64_t end = told_.version + 1;
    return end - std::min(next, end);
  }
  // Heads since the port was made, in order. A slow receiver misses some and is told so. Heads that a busy
  // shard missed are a gap in the versions.
  Broadcast<Head>& committed() noexcept { return committed_; }
  // Heads on their way to this shard.
  std::size_t coming() const;
  // Waits until the head is past `version`. Cancel: clean.
  Task<Result<Head>> wait_past(Call call, std::uint64_t version);

  // --- reads. Cancel: clean.
  // `not_found`, `pruned`, or `integrity` when its bytes do not match their hashes; the version is then
  // marked as bad.
  Task<Result<ArtifactPtr>> read_version(Call call, std::uint64_t version);
  // The same, always from the disk. The result is neither kept in memory nor rendered as an answer.
  Task<Result<std::shared_ptr<Artifact>>> load_version(Call call, std::uint64_t version);
  // From the memory of recent reads only.
  ArtifactPtr find_version(std::uint64_t version) noexcept;
  // The bytes of a pending proposal's payload.
  Task<Result<std::string>> read_payload(Call call, format::DescriptorSet set, std::vector<Hash> items,
                                         Address payload_b3);
  // Whether the disk can be read. After a failed read it tries the head's commit.
  Task<bool> can_read(Call call);
  // The commit's bytes alone, checked.
  Task<Result<std::string>> read_commit(Call call, std::uint64_t version);

  // Events of the audit trail, the oldest first: those after the sequence `after`, or the newest ones.
  Task<Result<AuditPage>> read_audit(Call call, std::optional<std::uint64_t> after, std::uint64_t limit);

  // --- changes. They return when durable. Cancel: partial — a change that was begun may still be done.
  Task<Result<Outcome>> propose(Call call, std::string who, format::ProposalDraft draft);
  Task<Result<Outcome>> approve(Call call, std::string who, Ulid id, format::Approval approval);
  // `approvals` are recorded together with the commit.
  Task<Result<Outcome>> commit(Call call, std::string who, Ulid id, bool supersede,
                               std::vector<format::Approval> approvals = {});
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation, Permits& queue);

 private:
  friend class Registry;
  // The committer's news for this shard. The feed outlives the port while it is in a mailbox.
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
  // The full list that was read last, and its version.
  std::uint64_t base_version_ = 0;
  std::shared_ptr<const std::vector<Hash>> base_;
};

}  // namespace cairn::registry
