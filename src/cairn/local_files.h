// Local files as the verbs use them: the kind of a path, the files of a directory, the target of a download.
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
// `follow`: the facts of a link's target.
FileFacts look_at(const std::string& path, bool follow) noexcept;

struct TreeFile {
  std::string path;  // inside the tree, with slashes
  std::string full;
  FileFacts facts;
};
struct Tree {
  std::vector<TreeFile> files;       // sorted by the bytes of their paths
  std::vector<std::string> skipped;  // one line each, with the reason
};
// Every file below a directory. Links are skipped unless followed; a link that leads back up is skipped too.
Tree walk_tree(const std::string& directory, bool follow);

// Makes the directories above `path` inside `root`. A link on the way is refused: no path leads out of
// `root`.
client::Outcome<> make_parents(const std::string& root, const std::string& path);
// Gives `path`, which is to replace `target`, the mode of the target, or of a new file of this user (0666
// without the umask) where there is none.
void take_mode(const std::string& path, const std::string& target) noexcept;

// The target of bytes that a person wants at a path. Links are followed.
//   [LT-1] Only a regular file is ever replaced by another. Anything else (a device, a pipe, a terminal) is
//         written to in place.
struct Target {
  std::string path;       // behind all links; may not exist
  int descriptor = -1;    // a descriptor of this process that the path names, like `/dev/stdout`
  bool in_place = false;  // neither a regular file nor nothing: see LT-1
};
client::Outcome<Target> find_target(const std::string& path);
// Writes the whole content of a path (`-`: stdout). A regular file is replaced in one step, so that a failure
// leaves the old file. Blocks.
client::Outcome<> write_whole(const std::string& path, std::string_view bytes);
std::string absolute_path(const std::string& path);
// The directory that remembers interrupted uploads; made if missing. Empty: it cannot be made.
std::string upload_ledger_directory();

// stdin and stdout, or a device, as a stream of bytes. Read and written on the pool: a pipe may block.
class StdinSource final : public client::ByteSource {
 public:
  explicit StdinSource(Pool& pool) noexcept : pool_(pool) {}
  Task<Result<HeapBytes>> next(Call call, std::size_t most) override;

 private:
  Pool& pool_;
};
class DescriptorDestination final : public client::Destination {
 public:
  DescriptorDestination(Pool& pool, int descriptor) noexcept : pool_(pool), descriptor_(descriptor) {}
  // `closed` when the reader has gone, which is no error to report.
  Task<Result<>> write(Call call, std::uint64_t offset, HeapBytes bytes) override;

 private:
  Pool& pool_;
  int descriptor_;
};
// The descriptor of a target that is written in place, which the caller closes. Waits for a pipe's reader, on
// the pool. Cancel: partial — a descriptor may be opened and lost.
Task<client::Outcome<int>> open_in_place(Call call, Pool* pool, Target target);

}  // namespace cairn::cli
