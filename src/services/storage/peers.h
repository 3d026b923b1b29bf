// What storage asks of other services.
#pragma once

#include <cstdint>
#include <string>

#include "base/ulid.h"
#include "io/machine.h"
#include "observe/metric.h"
#include "serve/authorizer.h"
#include "serve/peers.h"

namespace cairn::storage {

// The index, as the announcer sees it.
class IndexPort {
 public:
  // What it says to a batch of records.
  struct Told {
    std::uint64_t taken = 0, ignored = 0;
    Ulid epoch;  // another one than before: it may have lost what it took
  };

  virtual ~IndexPort() = default;
  // POST /providers. `unauthorized` or `forbidden`: no capability for that. `malformed`: it will never take
  // this. `busy`: not now. Any other error: no answer, or one that says nothing of the batch.
  // Cancel: partial — it may have taken the batch.
  virtual Task<Result<Told>> tell(Call call, std::string document) = 0;
};

// The index of this process, or of another one.
//   [TO-1] A token that this process mints for itself never leaves the process: an index elsewhere is shown
//         the one of `announce.token_file`.
class IndexPeer final : public IndexPort {
 public:
  struct Counters {
    observe::Slot slot = 0;
    observe::CounterFamily timeouts, retries;  // serve::Metrics has them: by serve::IoOp, serve::Repeated
  };
  // All outlive it. The token's file is read by `machine`'s disk; empty: there is none.
  IndexPeer(io::Machine& machine, serve::Peer& peer, std::string token_file, const Counters& counters);

  // The keys by which the services of this process know tokens. Null: they ask for none.
  void take_keys(serve::KeySnapshotPtr keys) noexcept;
  Task<Result<Told>> tell(Call call, std::string document) override;

 private:
  Task<Result<>> find_token(Call call);
  Result<> mint_token();
  Task<Result<std::string>> ask(Call call, std::string document);
  void count(const Error& why) noexcept;

  io::Machine& machine_;
  serve::Peer& peer_;
  std::string token_file_;
  serve::KeySnapshotPtr keys_;
  std::string token_;  // empty: has to be found
  Counters counters_;
  bool failed_ = false;  // the last request
};

}  // namespace cairn::storage
