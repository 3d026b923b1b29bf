#include "cairn/putting.h"

#include <fmt/format.h>

#include <algorithm>

#include "cairn/parallel.h"
#include "client/media_type.h"
#include "codec/json_writer.h"
#include "runtime/pool.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;
using client::Stored;

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

void tell(Putting* putting, std::string path, std::string_view kind, const Outcome<Stored>& outcome,
          std::optional<std::size_t> entries = {}) {
  putting->progress.clear();
  if (!outcome) {
    putting->exits.add(exit_of(outcome.error()));
    putting->refusal.add(outcome.error());
    putting->refusal.tell(outcome.error(), path);
    return;
  }
  putting->exits.add(Exit::ok);
  putting->last = {.path = std::move(path), .kind = kind, .stored = *outcome, .entries = entries};
  if (putting->prints) print_put(putting->session->terminal, putting->last, {});
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
  if (!putting->prints && bytes.size() <= client::index_manifest_max) putting->manifest = bytes;
  client::TextSource source(std::move(bytes));
  client::PutOptions options{.media_type = std::string(format::manifest_media_type)};
  co_return co_await client::put_stream(call, putting->session->storage, &source, std::move(options));
}

// The files of a tree, and then its manifest. `path`: the tree's name in messages.
Task<> put_tree(Call call, Putting* putting, std::string path, std::vector<Item> items) {
  Session* session = putting->session;
  for (const Item& item : items) putting->progress.expect(item.facts.size);
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

// Adds the files below `path` to the items of a tree, as `before` and their own paths. False: it was told why
// not.
Task<bool> add_directory(Call call, Putting* putting, std::string path, std::string before,
                         std::vector<Item>* items) {
  Session* session = putting->session;
  auto tree = co_await run(session->machine.pool, call, Lane::read,
                           [path, follow = putting->follow] { return walk_tree(path, follow); });
  if (!tree) {
    tell(putting, path, "directory", fail(Failure(tree.error())));
    co_return false;
  }
  for (const std::string& why : tree->skipped) session->terminal.warn("skipped " + why);
  putting->skipped |= !tree->skipped.empty();
  for (TreeFile& file : tree->files) items->push_back({before + file.path, std::move(file.full), file.facts});
  co_return true;
}

// The last part of a path, as an entry of a directory is called.
std::string last_part(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// Several paths as one directory that has each under the last part of its path.
Task<> put_together(Call call, Putting* putting, std::vector<std::string> paths) {
  std::vector<Item> items;
  for (const std::string& path : paths) {
    const FileFacts facts = look_at(path, true);
    if (facts.kind == FileKind::directory) {
      if (!co_await add_directory(call, putting, path, last_part(path) + "/", &items)) co_return;
    } else if (facts.kind == FileKind::file) {
      items.push_back({last_part(path), path, facts});
    } else {
      tell_no_file(putting, path, facts.kind);
      co_return;
    }
  }
  co_await put_tree(call, putting, "these paths", std::move(items));
}

}  // namespace

void print_put(const Terminal& terminal, const Put& put, const std::optional<client::NamedObject>& named) {
  const std::string address = format_address(put.stored.address);
  if (!terminal.json()) {
    terminal.line(terminal.quiet() ? address : fmt::format("{}  {}", address, printable(put.path)));
    return;
  }
  std::string text;
  codec::JsonWriter json(text);
  json.begin_object().field("path", put.path).field("kind", put.kind).field("address", address);
  json.field("size", put.stored.size).field("fresh", put.stored.fresh);
  if (put.entries) json.field("entries", *put.entries);
  if (named) json.field("name", named->name).field("sequence", named->sequence);
  json.end_object().finish();
  terminal.line(text);
}

Putting::Putting(Session* of, bool prints_each)
    : session(of),
      progress(of->terminal, "put"),
      follow(of->invocation.has("follow")),
      prints(prints_each),
      refusal(of) {
  if (std::string directory = upload_ledger_directory(); !directory.empty())
    ledger = std::make_unique<client::UploadLedger>(of->machine, std::move(directory));
}

client::PutOptions Putting::options(std::string media_type) {
  return {.media_type = std::move(media_type),
          .moved = [this](std::uint64_t bytes) { progress.moved(bytes); }};
}

std::string Putting::type_of(const std::string& path) const {
  return std::string(session->invocation.get("type", client::guess_media_type(path)));
}

Exit Putting::exit() const noexcept {
  const Exit exit = exits.exit();
  return exit == Exit::ok && skipped ? Exit::some_failed : exit;
}

void tell_no_file(Putting* putting, std::string path, FileKind kind) {
  tell(putting, std::move(path), "file",
       fail(Failure(kind == FileKind::absent ? ErrorCode::not_found : ErrorCode::invalid,
                    kind == FileKind::absent ? "there is no such file" : "not a file or directory")));
}

Task<> put_files(Call call, Putting* putting, std::vector<Item>* items) {
  for (const Item& item : *items) putting->progress.expect(item.facts.size);
  InOrder order{putting, items};
  co_await run_parallel(call, &putting->session->machine.shard, items->size(), files_at_once,
                        [&order](Call each, std::size_t i) { return put_and_tell(each, &order, i); });
  putting->refusal.skip(items->size() - order.told, putting->exits);
  items->clear();
}

Task<> put_directory(Call call, Putting* putting, std::string path) {
  std::vector<Item> items;
  if (co_await add_directory(call, putting, path, {}, &items))
    co_await put_tree(call, putting, std::move(path), std::move(items));
}

Task<> put_stdin(Call call, Putting* putting) {
  StdinSource source(putting->session->machine.pool);
  client::PutOptions options =
      putting->options(std::string(putting->session->invocation.get("type", "application/octet-stream")));
  const auto stored =
      co_await client::put_stream(call, putting->session->storage, &source, std::move(options));
  tell(putting, "-", "file", stored);
}

Task<> put_as_one(Call call, Putting* putting, std::vector<std::string> paths) {
  if (paths.size() > 1) {
    co_await put_together(call, putting, std::move(paths));
    co_return;
  }
  const std::string& path = paths.front();
  const FileFacts facts = path == "-" ? FileFacts{} : look_at(path, true);
  if (path == "-") {
    co_await put_stdin(call, putting);
  } else if (facts.kind == FileKind::directory) {
    co_await put_directory(call, putting, path);
  } else if (facts.kind == FileKind::file) {
    std::vector<Item> items{{path, path, facts}};
    co_await put_files(call, putting, &items);
  } else {
    tell_no_file(putting, path, facts.kind);
  }
}

}  // namespace cairn::cli
