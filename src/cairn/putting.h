// Putting: files, directories and stdin on their way into storage, for the verbs that store what a person
// names by its path.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/local_files.h"
#include "cairn/refusal.h"
#include "cairn/session.h"
#include "client/upload.h"
#include "format/manifest.h"

namespace cairn::cli {

// Something that was stored.
struct Put {
  std::string path;
  std::string_view kind;  // file, directory
  client::Stored stored;
  std::optional<std::size_t> entries = {};  // of a directory
};
// Data, one line. `named`: the name that leads there now.
void print_put(const Terminal& terminal, const Put& put, const std::optional<client::NamedObject>& named);

// One invocation's state. Failures are told as they come, and `exits` has what they amount to.
struct Putting {
  Session* session;
  Progress progress;
  std::unique_ptr<client::UploadLedger> ledger;
  bool follow;
  bool prints;  // each thing that was stored, when it is
  ExitOfSeveral exits;
  Refusal refusal;
  bool skipped = false;
  Put last;              // what was stored last
  std::string manifest;  // its bytes, if it is a directory that the index can keep, and nothing is printed

  Putting(Session* of, bool prints);
  client::PutOptions options(std::string media_type);
  std::string type_of(const std::string& path) const;
  // What all of it amounts to.
  Exit exit() const noexcept;
};

// One file, wherever it is listed.
struct Item {
  std::string path, full;
  FileFacts facts;
  std::optional<client::Outcome<client::Stored>> outcome = {};
};

// All: Cancel: partial — what was stored stays; the same call goes on where it was.
// Puts the files side by side, and clears the list.
Task<> put_files(Call call, Putting* putting, std::vector<Item>* items);
Task<> put_directory(Call call, Putting* putting, std::string path);
Task<> put_stdin(Call call, Putting* putting);
// Puts whatever is at the paths as one object: a file or a directory as it is, several as one directory that
// has each under the last part of its path.
Task<> put_as_one(Call call, Putting* putting, std::vector<std::string> paths);

// Tells that there is nothing at the path that can be put.
void tell_no_file(Putting* putting, std::string path, FileKind kind);

}  // namespace cairn::cli
