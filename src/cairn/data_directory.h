// The data directory: what the first start makes there, and what every start needs of it.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "io/lock_file.h"
#include "serve/root_keys.h"

namespace cairn::cli {

struct Prepared {
  std::unique_ptr<serve::RootKeys> keys;
  std::vector<io::LockFile> locks;
  std::string admin;  // the admin capability, when it is kept nowhere else
  bool made = false;  // this was the first start
};

// Makes the directory, its keys and an admin capability where they are missing, and takes the lock of each
// service. The error is text for people.
std::expected<Prepared, std::string> prepare_data_directory(const std::string& directory,
                                                            const std::vector<std::string>& services);
// The same without a disk: keys and capability live and die with the process.
std::expected<Prepared, std::string> prepare_amnesia();

}  // namespace cairn::cli
