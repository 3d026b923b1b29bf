// Committer: the only writer of the index's log and map. It decides on changes of names, signs them, writes
// them in commit groups (store/group_commit.h), and brings the map up to the log before it answers.
//
//   [NL-1] Order of a change: decide → append → sync → map → answer. A change that was answered survives any
//         crash, and every reader finds it or a later one.
//   [NL-2] Each change of a name has the sequence of the one before it plus one, also across removals.
//   [NL-3] A change whose conditions do not hold for the newest state of the name changes nothing. A change
//   is
//         refused only for a state that is durable.
//   [NL-4] When the map cannot follow the log the ledger is fenced: nothing is answered as done that a reader
//         could not find. The next start catches up.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/log.h"
#include "services/index/indexer.h"
#include "services/index/ledger.h"
#include "services/index/mutation.h"
#include "store/group_commit.h"

namespace cairn::index {

struct ChangeGroup : store::CommitGroup<Mutation> {
  std::map<std::string, NameState> names;  // as this group leaves them
  std::set<Address> manifests;             // that this group brings, or forgets
  std::size_t signed_since_turn = 0;

  void add(RecordKind kind, std::string meta, std::vector<HeapBytes> data = {}) {
    store::Record record;
    record.kind = static_cast<std::uint8_t>(kind);
    record.meta = std::move(meta);
    record.data = std::move(data);
    CommitGroup::add(std::move(record));
  }
};

class Committer final : public store::GroupCommit<Mutation, ChangeGroup> {
 public:
  // All outlive it.
  Committer(Ledger& ledger, io::Machine& machine, observe::Logger log, store::Log& segments, store::Kv& kv,
            Indexer& indexer);

 private:
  Task<> begin(Call call, ChangeGroup& group) override;
  std::optional<Error> closed(const Mutation& mutation) const override;
  Task<Result<store::Planned>> plan(Call call, Mutation& mutation, ChangeGroup& group) override;
  Task<Result<>> prepare(Call call, ChangeGroup& group) override;
  Task<Result<std::vector<store::Entry>>> append(Call call, ChangeGroup& group) override;
  Task<Result<>> apply(Call call, ChangeGroup& group, std::vector<store::Entry> placed) override;

  Task<Result<store::Planned>> plan_name(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<store::Planned>> plan_manifest(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<store::Planned>> plan_forget(Call call, Mutation& mutation, ChangeGroup& group);
  std::unexpected<Error> fall_behind(const char* why) noexcept;
  void fence(const char* why) noexcept;

  Ledger& ledger_;
  io::Machine& machine_;
  observe::Logger log_;
  store::Log& segments_;
  store::Kv& kv_;
  Indexer& indexer_;
  observe::LogEvery failure_told_{Duration::seconds(10)};
};

}  // namespace cairn::index
