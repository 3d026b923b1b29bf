// Local files as the verbs meet them: what a path is, what is in a directory, and where a download may go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/heap_bytes.h"
#include "client/download.h"
#include "client/failure.h"
#include "client/upload.h"
#include "io/machine.h"

namespace cairn::cli {

enum class FileKind : std::uint8_t { absent, file, directory, link, other };
struct FileFacts {
  FileKind kind = FileKind::absent;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
};
// `follow`: of what a link leads to.
FileFacts look_at(const std::string& path, bool follow) noexcept;

struct TreeFile {
  std::string path;  // inside the tree, with slashes
  std::string full;
  FileFacts facts;
};
struct Tree {
  std::vector<TreeFile> files;       // by the bytes of their paths
  std::vector<std::string> skipped;  // why, one line each
};
// Every file below a directory. Links are skipped unless followed; a link that leads back up is skipped too.
Tree walk_tree(const std::string& directory, bool follow);

// Makes the directories above `path` inside `root`, which is not left: a link on the way is refused.
client::Outcome<> make_parents(const std::string& root, const std::string& path);
// What a new file of this user may have (0666 without the umask).
void set_usual_mode(const std::string& path) noexcept;
std::string absolute_path(const std::string& path);
// Where interrupted uploads are remembered; made if need be. Empty: it cannot be had.
std::string upload_ledger_directory();

// stdin and stdout as a stream of bytes; read and written on the pool, because a pipe may block.
class StdinSource final : public client::ByteSource {
 public:
  explicit StdinSource(Pool& pool) noexcept : pool_(pool) {}
  Task<Result<HeapBytes>> next(Call call, std::size_t most) override;

 private:
  Pool& pool_;
};
class StdoutDestination final : public client::Destination {
 public:
  explicit StdoutDestination(Pool& pool) noexcept : pool_(pool) {}
  // `closed` when the reader has gone: nothing to complain about.
  Task<Result<>> write(Call call, std::uint64_t offset, HeapBytes bytes) override;

 private:
  Pool& pool_;
};

}  // namespace cairn::cli
