// The data directory: the files that the first start makes there, and that every start needs.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/lock_file.h"
#include "serve/root_keys.h"

namespace cairn::cli {

// Held while a service may write below the directory.
struct ServiceLock {
  std::string service;
  io::LockFile lock;
};
std::string lock_path(const std::string& directory, std::string_view service);
// Where the administrator's own capability is kept.
std::string admin_capability_path(const std::string& directory);

struct Prepared {
  std::unique_ptr<serve::RootKeys> keys;
  std::vector<ServiceLock> locks;
  std::string admin;  // the admin capability, if no file keeps it
  bool made = false;  // this was the first start
};

// Makes the directory where it is missing and takes the lock of each of `writers`, the services that write
// there. The error is text for people.
std::expected<std::vector<ServiceLock>, std::string> lock_data_directory(
    const std::string& directory, const std::vector<std::string>& writers);
// Makes the directory, its keys and an admin capability where they are missing, under the writers' locks.
std::expected<Prepared, std::string> prepare_data_directory(const std::string& directory,
                                                            const std::vector<std::string>& writers);
// After a revocation: replaces the administrator's own capability, if it is void by `ring`, with one under
// the key that mints now. A process that can write this directory could mint it anyway. Blocks.
Result<> renew_admin_capability(const std::string& directory, const crypto::KeyRing& ring);
// Makes keys and a capability that live and die with the process. Writers, if there are any, still get their
// locks. Without writers nothing on disk is touched.
std::expected<Prepared, std::string> prepare_amnesia(const std::string& directory,
                                                     const std::vector<std::string>& writers);
// For services that ask for no capability: the writers' locks and nothing else. Without writers nothing on
// disk is touched.
std::expected<Prepared, std::string> prepare_without_keys(const std::string& directory,
                                                          const std::vector<std::string>& writers);

// Every store is noted in the data directory, so that a store that is gone (a disk that is not mounted) is
// not taken for a new one. `stores`: the directories that the service is to use.
std::expected<void, std::string> check_stores(const std::string& directory, std::string_view service,
                                              const std::vector<std::string>& stores);
std::expected<void, std::string> note_stores(const std::string& directory, std::string_view service,
                                             const std::vector<std::string>& stores);

}  // namespace cairn::cli
