// `cairn put`: files, directories and stdin become objects.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cairn/local_files.h"
#include "cairn/parallel.h"
#include "cairn/refusal.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "client/media_type.h"
#include "client/upload.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"
#include "format/manifest.h"
#include "runtime/pool.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;
using client::Stored;

struct Putting {
  Session* session;
  Progress progress;
  std::unique_ptr<client::UploadLedger> ledger;
  bool follow;
  ExitOfSeveral exits;
  Refusal refusal;
  bool skipped = false;

  explicit Putting(Session* of)
      : session(of), progress(of->terminal, "put"), follow(of->invocation.has("follow")), refusal(of) {
    if (std::string directory = upload_ledger_directory(); !directory.empty())
      ledger = std::make_unique<client::UploadLedger>(of->machine, std::move(directory));
  }
  client::PutOptions options(std::string media_type) {
    return {.media_type = std::move(media_type),
            .moved = [this](std::uint64_t bytes) { progress.moved(bytes); }};
  }
  std::string type_of(const std::string& path) const {
    return std::string(session->invocation.get("type", client::guess_media_type(path)));
  }
};

// One file, wherever it is listed.
struct Item {
  std::string path, full;
  FileFacts facts;
  std::optional<Outcome<Stored>> outcome = {};
};

Task<Outcome<Stored>> put_one(Call call, Putting* putting, const Item* item) {
  io::Machine& machine = putting->session->machine;
  CO_TRY(const std::unique_ptr<io::File> file,
         co_await machine.disk.open(call, item->full, io::OpenMode::read));
  client::PutOptions options = putting->options(putting->type_of(item->path));
  if (putting->ledger != nullptr) {
    options.ledger = putting->ledger.get();
    options.ledger_key = client::ledger_key(absolute_path(item->full), item->facts.size,
                                            item->facts.modified_ns, putting->session->where);
  }
  co_return co_await client::put_file(call, putting->session->storage, file.get(), std::move(options));
}

void tell(Putting* putting, std::string_view path, std::string_view kind, const Outcome<Stored>& outcome,
          std::optional<std::size_t> entries = {}) {
  const Terminal& terminal = putting->session->terminal;
  putting->progress.clear();
  if (!outcome) {
    putting->exits.add(exit_of(outcome.error()));
    putting->refusal.add(outcome.error());
    putting->refusal.tell(outcome.error(), path);
    return;
  }
  putting->exits.add(Exit::ok);
  const std::string address = format_address(outcome->address);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("path", path).field("kind", kind).field("address", address);
    json.field("size", outcome->size).field("fresh", outcome->fresh);
    if (entries) json.field("entries", *entries);
    json.end_object().finish();
    terminal.line(text);
  } else {
    terminal.line(terminal.quiet() ? address : fmt::format("{}  {}", address, printable(path)));
  }
}

// Leaves the item without an outcome if the upload is not begun.
Task<> put_item(Call call, Putting* putting, Item* item) {
  if (putting->refusal.repeats()) co_return;
  item->outcome.emplace(co_await put_one(call, putting, item));
  if (!*item->outcome) putting->refusal.add(item->outcome->error());
}

// Reports each item as soon as all before it are reported.
struct InOrder {
  Putting* putting;
  std::vector<Item>* items;
  std::size_t told = 0;
  void tell_more() {
    for (; told < items->size() && (*items)[told].outcome; ++told)
      tell(putting, (*items)[told].path, "file", *(*items)[told].outcome);
  }
};
Task<> put_and_tell(Call call, InOrder* order, std::size_t index) {
  co_await put_item(call, order->putting, &(*order->items)[index]);
  order->tell_more();
}

Task<> put_files(Call call, Putting* putting, std::vector<Item>* items) {
  for (const Item& item : *items) putting->progress.expect(item.facts.size);
  InOrder order{putting, items};
  co_await run_parallel(call, &putting->session->machine.shard, items->size(), files_at_once,
                        [&order](Call each, std::size_t i) { return put_and_tell(each, &order, i); });
  putting->refusal.skip(items->size() - order.told, putting->exits);
  items->clear();
}

Task<Outcome<Stored>> put_manifest(Call call, Putting* putting, const std::vector<Item>* items) {
  format::Manifest manifest;
  for (const Item& item : *items)
    manifest.entries.push_back({item.path, (*item.outcome)->address, (*item.outcome)->size,
                                std::string(client::guess_media_type(item.path))});
  const Invocation& invocation = putting->session->invocation;
  if (const auto title = invocation.find("title")) manifest.title = *title;
  if (invocation.has("created")) manifest.created = putting->session->machine.shard.wall();
  if (const auto previous = invocation.find("previous")) manifest.previous = parse_address(*previous);
  CO_TRY(std::string bytes, format::encode_manifest(std::move(manifest)));
  client::TextSource source(std::move(bytes));
  client::PutOptions options{.media_type = std::string(format::manifest_media_type)};
  co_return co_await client::put_stream(call, putting->session->storage, &source, std::move(options));
}

Task<> put_directory(Call call, Putting* putting, std::string path) {
  Session* session = putting->session;
  auto tree = co_await run(session->machine.pool, call, Lane::read,
                           [path, follow = putting->follow] { return walk_tree(path, follow); });
  if (!tree) {
    tell(putting, path, "directory", fail(Failure(tree.error())));
    co_return;
  }
  for (const std::string& why : tree->skipped) session->terminal.warn("skipped " + why);
  putting->skipped |= !tree->skipped.empty();
  std::vector<Item> items;
  for (TreeFile& file : tree->files) {
    putting->progress.expect(file.facts.size);
    items.push_back({std::move(file.path), std::move(file.full), file.facts});
  }
  co_await run_parallel(call, &session->machine.shard, items.size(), files_at_once,
                        [&](Call each, std::size_t i) { return put_item(each, putting, &items[i]); });
  bool whole = true;
  for (const Item& item : items) {
    if (item.outcome && *item.outcome) continue;
    whole = false;
    putting->progress.clear();
    if (!item.outcome) {
      putting->refusal.skip(1, putting->exits);
      continue;
    }
    putting->exits.add(exit_of(item.outcome->error()));
    putting->refusal.tell(item.outcome->error(), path + "/" + item.path);
  }
  // A manifest of a part of the directory would pass for the whole.
  if (whole) {
    const auto stored = co_await put_manifest(call, putting, &items);
    tell(putting, path, "directory", stored, items.size());
  } else if (!call.stopped()) {
    session->terminal.warn(path + ": no manifest was made, because not every file was stored");
  }
}

Task<> put_stdin(Call call, Putting* putting) {
  StdinSource source(putting->session->machine.pool);
  client::PutOptions options =
      putting->options(std::string(putting->session->invocation.get("type", "application/octet-stream")));
  const auto stored =
      co_await client::put_stream(call, putting->session->storage, &source, std::move(options));
  tell(putting, "-", "file", stored);
}

Task<Exit> put_all(Call call, Session* session) {
  Putting putting(session);
  std::vector<Item> files;  // adjacent files of the command line are put together
  std::size_t seen = 0;
  for (const std::string& path : session->invocation.arguments) {
    ++seen;
    const FileFacts facts = path == "-" ? FileFacts{} : look_at(path, true);
    if (facts.kind == FileKind::file) {
      files.push_back({path, path, facts});
      continue;
    }
    co_await put_files(call, &putting, &files);
    if (call.stopped()) break;
    if (putting.refusal.repeats()) {
      putting.refusal.skip(session->invocation.arguments.size() - seen + 1, putting.exits);
      break;
    }
    if (path == "-")
      co_await put_stdin(call, &putting);
    else if (facts.kind == FileKind::directory)
      co_await put_directory(call, &putting, path);
    else
      tell(&putting, path, "file",
           fail(Failure(
               facts.kind == FileKind::absent ? ErrorCode::not_found : ErrorCode::invalid,
               facts.kind == FileKind::absent ? "there is no such file" : "not a file or directory")));
  }
  co_await put_files(call, &putting, &files);
  if (call.stopped()) {
    putting.progress.clear();
    session->terminal.say("interrupted; the same command goes on where it was");
    co_return Exit::interrupted;
  }
  putting.progress.clear();
  putting.refusal.conclude();
  const Exit exit = putting.exits.exit();
  co_return exit == Exit::ok&& putting.skipped ? Exit::some_failed : exit;
}

}  // namespace

int put_verb(const Invocation& invocation) {
  // The command line is checked before anything is sent.
  for (const std::string& path : invocation.arguments)
    if (path.empty()) return complain_usage(invocation, "a PATH is empty");
  if (const auto previous = invocation.find("previous"); previous && !parse_address(*previous))
    return complain_usage(invocation, "--previous is not an address", "`b3:` and 64 hex digits");
  if (const auto type = invocation.find("type"); type && !client::names_media_type(*type))
    return complain_usage(invocation, "--type is not a media type", "--type text/plain");
  for (const std::string_view flag : {"title", "created", "previous"})
    for (const std::string& path : invocation.arguments) {
      const FileKind kind = path == "-" ? FileKind::file : look_at(path, true).kind;
      if (invocation.has(flag) && kind != FileKind::directory && kind != FileKind::absent)
        return complain_usage(invocation,
                              fmt::format("--{} is of a directory, and {} is none", flag, printable(path)));
    }
  return run_session(invocation, put_all, Server::of_objects);
}

}  // namespace cairn::cli
