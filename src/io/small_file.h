// Small files that are read and replaced as a whole by start-up code and pool jobs. Everything here blocks:
// never on a shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/secret_bytes.h"

namespace cairn::io {

// `not_found` when it cannot be opened, `invalid` when it is larger than `most`.
Result<std::string> read_small_file(const std::string& path, std::size_t most);
// The same for a regular file; anything else (a pipe, a device) is `invalid` and is never waited for.
Result<std::string> read_regular_file(const std::string& path, std::size_t most);

// The same for a secret: `forbidden` when anybody but its owner can read or change it.
Result<crypto::SecretText> read_private_file(const std::string& path, std::size_t most);

// A mark that differs once a file was replaced or written to: for polling.
struct FileMark {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const FileMark&, const FileMark&) = default;
};
Result<FileMark> mark_file(const std::string& path);

// Writes the text aside (PATH.new, 0600), makes it durable and puts it in the place of `path`: a reader, and
// a crash at any moment, sees the old text or the new one.
Result<> replace_file(const std::string& path, std::string_view text);

}  // namespace cairn::io
