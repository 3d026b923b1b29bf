// Backend: keeps a registry's records and its HEAD. The Committer is its only user.
//
//   [BE-1] advance() succeeds only if HEAD is the one that it expects. The new HEAD and its records become
//         durable together, or not at all.
//   [BE-2] Records that append() or advance() acknowledged survive any crash.
// EmbeddedBackend: a segment log of this process (on disk, or on a disk in memory). Only this object knows
// HEAD, so it does the comparison itself. A store that several machines share would do it in a transaction.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "store/log.h"

namespace cairn::registry {

struct HeadMark {
  std::uint64_t version = 0;
  Address commit_b3;
  friend bool operator==(const HeadMark&, const HeadMark&) = default;
};
using MaybeHead = std::optional<HeadMark>;  // none: before genesis

class Backend {
 public:
  virtual ~Backend() = default;
  // One batch, one sync. Cancel: shielded — a write with an unknown outcome would fence the log.
  virtual Task<Result<std::vector<store::Entry>>> append(Call call, std::vector<store::Record> batch) = 0;
  // As append, if HEAD is `expected`; HEAD then becomes `next`. Otherwise `chain_mismatch` and no write.
  // Cancel: as append.
  virtual Task<Result<std::vector<store::Entry>>> advance(Call call, MaybeHead expected, HeadMark next,
                                                          std::vector<store::Record> batch) = 0;
  virtual bool fenced() const noexcept = 0;
};

class EmbeddedBackend final : public Backend {
 public:
  EmbeddedBackend(std::unique_ptr<store::Log> log, MaybeHead head) noexcept
      : log_(std::move(log)), head_(head) {}

  Task<Result<std::vector<store::Entry>>> append(Call call, std::vector<store::Record> batch) override {
    return log_->append(call, std::move(batch));
  }
  Task<Result<std::vector<store::Entry>>> advance(Call call, MaybeHead expected, HeadMark next,
                                                  std::vector<store::Record> batch) override;
  bool fenced() const noexcept override { return log_->fenced(); }
  store::Log& log() noexcept { return *log_; }

 private:
  std::unique_ptr<store::Log> log_;
  MaybeHead head_;
};

}  // namespace cairn::registry
