// RootKeys: the root keys of capabilities as a process has them: a file that other processes may rewrite too,
// or memory only.
//   [Y-1] A revocation that was answered is durable (if there is a file), and no rewrite by another process
//         is lost: every process reads the file before it rewrites it, under a lock beside the file.
//   [Y-2] A snapshot with a higher version was read later; a damaged file never replaces what is known.
// The file's bytes: docs/formats/capability-root.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/small_file.h"
#include "runtime/guarded.h"
#include "serve/authorizer.h"
#include "serve/locks.h"

namespace cairn::serve {

class RootKeys {
 public:
  // In memory only: gone with the process.
  explicit RootKeys(crypto::KeyRing ring);
  // Reads the file. Blocks. `not_found` when there is none, `malformed` when it is damaged.
  static Result<std::unique_ptr<RootKeys>> open(std::string path);
  // Makes the file, durably. `conflict` when there is one already. Blocks.
  static Result<> create(const std::string& path, const crypto::KeyRing& ring);

  // From any thread.
  KeySnapshotPtr current() const;

  // --- from any thread but a shard's: they block
  // Voids every token under the id, and returns the keys that hold from now on. If it was the last key,
  // `instead` mints from the same moment on. Errors: those of KeyRing::revoke and rotate, io_failed,
  // malformed.
  Result<KeySnapshotPtr> revoke(std::string_view id, crypto::RootKey instead);
  // From now on `key` mints. Errors: those of KeyRing::rotate, io_failed, malformed.
  Result<KeySnapshotPtr> rotate(crypto::RootKey key);
  // Checks whether another process has rewritten the file, and returns the keys that hold from now on. After
  // an error the known keys still hold.
  Result<KeySnapshotPtr> refresh();

 private:
  struct Held {
    KeySnapshotPtr keys;
    io::FileMark mark;  // of the file they were read from
  };
  static constexpr std::size_t file_max = 64 * 1024;

  RootKeys(std::string path, Held held);
  static Result<crypto::KeyRing> read(const std::string& path);
  template <class Change>
  Result<KeySnapshotPtr> rewrite(Change change);
  Result<KeySnapshotPtr> read_again();
  KeySnapshotPtr hold(crypto::KeyRing ring, io::FileMark mark);

  const std::string path_;  // empty: in memory only
  Guarded<Held, root_keys_lock.rank> held_;
};

}  // namespace cairn::serve
