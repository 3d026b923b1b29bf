// UploadLedger: remembers, in a small file for each upload, to which upload a file was being sent. So the
// same command given again goes on where it was interrupted. If the ledger is lost, the file is only sent
// anew.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/machine.h"

namespace cairn::client {

class UploadLedger {
 public:
  // `directory` exists and is the user's own.
  UploadLedger(io::Machine& machine, std::string directory)
      : machine_(machine), directory_(std::move(directory)) {}

  // Cancel: clean.
  Task<std::optional<std::string>> find(Call call, std::string key);
  // Cancel: partial — the entry may be there or not.
  Task<Result<>> keep(Call call, std::string key, std::string upload);
  // Cancel: as keep().
  Task<Result<>> forget(Call call, std::string key);

 private:
  std::string path_of(std::string_view key) const { return directory_ + "/" + std::string(key); }

  io::Machine& machine_;
  std::string directory_;
};

// The key of a file at one moment: another size, modification time or server gives another key.
std::string ledger_key(std::string_view path, std::uint64_t size, std::int64_t modified_ns,
                       std::string_view server);

}  // namespace cairn::client
