// Verifies a registry's directory from its trust roots, for people, not for the running service.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "format/signed_commit.h"
#include "io/machine.h"
#include "runtime/task.h"

namespace cairn::registry {

struct VerifyReport {
  std::uint64_t versions = 0, first = 0;
  bool approvals_checked = true;
  std::optional<std::uint64_t> bad_version;
  std::string why;
  std::uint64_t checkpoint_size = 0;
};

// `directory` is the data directory's `registry/`. Cancel: clean.
Task<Result<VerifyReport>> verify_directory(
    Call call,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives every task on it
    io::Machine& machine, std::string directory, format::TrustRoots roots);

}  // namespace cairn::registry
