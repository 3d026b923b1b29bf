// Home: the part of a ledger that lives on its home shard: log, map and committer.
#pragma once

#include <memory>

#include "services/index/committer.h"
#include "services/index/map_port.h"

namespace cairn::index {

class Home final : public store::Replay {
 public:
  // All outlive it.
  Home(Ledger& ledger, io::Machine& machine, observe::Logger log);
  ~Home() override;
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  // Opens log and map and brings them together. Cancel: partial — as after a crash.
  Task<Result<>> open(Call call);
  // Precondition: its tasks have ended. Refuses changes that wait. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);
  // The task: looks after a full disk, and remembers a damaged map for the next start. Cancel: clean.
  Task<> tend(Call call);

  Committer& committer() noexcept { return *committer_; }
  void publish_totals() noexcept;
  // Ends the current segment, for tests. Precondition: nothing is under way.
  Task<Result<>> roll(Call call) { return segments_->roll(call); }

  Task<Result<>> on_record(Call call, store::Entry entry) override;
  Task<Result<>> on_damage(Call call, store::Damage damage) override;

 private:
  Task<Result<>> open_map(Call call, std::string directory);
  Task<Result<>> open_log(Call call);
  // False: the map does not fit the log.
  Task<Result<bool>> open_with_map(Call call, store::LogOptions options);
  Task<Result<>> remake_map(Call call);
  Task<Result<>> write_map(Call call, store::KvBatch batch);

  Ledger& ledger_;
  io::Machine& machine_;
  observe::Logger log_;
  std::string map_directory_;
  std::unique_ptr<MapPort> kv_;
  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<store::Log> segments_;
  std::unique_ptr<Committer> committer_;
  bool marked_ = false;
};

}  // namespace cairn::index
