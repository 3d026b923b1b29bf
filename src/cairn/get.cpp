// `cairn get`: an object, or the tree that a manifest describes, verified on its way to disk.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cairn/local_files.h"
#include "cairn/objects.h"
#include "cairn/parallel.h"
#include "cairn/refusal.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "client/download.h"
#include "client/upload.h"
#include "codec/json_writer.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;

struct Getting {
  Session* session;
  Progress progress;
  ExitOfSeveral exits;
  Refusal refusal;

  explicit Getting(Session* of) : session(of), progress(of->terminal, "get"), refusal(of) {}
};

struct Wanted {
  std::string path;  // the local target
  Address address;
  std::uint64_t size;  // as a manifest, or the server, says
};

struct Got {
  std::uint64_t size = 0, transferred = 0;
};

client::DownloadOptions options_for(Getting* getting, const Wanted& wanted) {
  client::DownloadOptions options;
  options.moved = [getting](std::uint64_t bytes) { getting->progress.moved(bytes); };
  options.claimed_size = wanted.size;
  return options;
}

std::string part_of(const std::string& path) { return path + ".part"; }

// Words an error of the local file so that it is not read as an error of the object.
Failure cannot_write(const std::string& path, const Error& error) {
  if (error.code == ErrorCode::cancelled) return error;
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == path.npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  if (look_at(directory, true).kind == FileKind::absent)
    return {ErrorCode::io_failed, fmt::format("{} cannot be written: there is no directory {}",
                                              printable(path), printable(directory))};
  return {error.code == ErrorCode::not_found ? ErrorCode::io_failed : error.code,
          fmt::format("{} cannot be written ({})", printable(path), error.context)};
}

// The file of an unfinished download, with the bytes of an earlier attempt.
Task<Outcome<std::unique_ptr<io::File>>> open_part(Call call, io::Machine* machine, std::string path) {
  const std::string part = part_of(path);
  const FileFacts facts = look_at(part, false);
  if (facts.kind != FileKind::absent && facts.kind != FileKind::file)
    co_return fail(Failure(ErrorCode::conflict, fmt::format("{} is in the way", part)));
  auto opened = co_await machine->disk.open(
      call, part, facts.kind == FileKind::absent ? io::OpenMode::create_new : io::OpenMode::write);
  if (!opened) co_return fail(cannot_write(path, opened.error()));
  co_return std::move(*opened);
}

// Whether the file already has the wanted bytes.
Task<bool> is_there(Call call, io::Machine* machine, const Wanted* wanted) {
  const FileFacts facts = look_at(wanted->path, false);
  if (facts.kind != FileKind::file || facts.size != wanted->size) co_return false;
  auto file = co_await machine->disk.open(call, wanted->path, io::OpenMode::read);
  if (!file) co_return false;
  const auto hash = co_await client::hash_file(call, file->get());
  co_return hash && hash->address == wanted->address;
}

Task<Outcome<Got>> get_file(Call call, Getting* getting, Wanted wanted) {
  io::Machine& machine = getting->session->machine;
  if (co_await is_there(call, &machine, &wanted)) {
    const std::uint64_t size = look_at(wanted.path, false).size;
    getting->progress.moved(size);
    co_return Got{size, 0};
  }
  const FileKind there = look_at(wanted.path, false).kind;
  if (there == FileKind::directory || there == FileKind::other)
    co_return fail(Failure(ErrorCode::conflict, there == FileKind::directory
                                                    ? "a directory is in the way"
                                                    : "what is there is no file, and is left as it is"));
  const std::string part = part_of(wanted.path);
  CO_TRY(const std::unique_ptr<io::File> file, co_await open_part(call, &machine, wanted.path));
  CO_TRY(const std::uint64_t held, file->size());
  client::FileDestination to(*file, held);
  CO_TRY(const client::Downloaded done,
         co_await client::download(call, getting->session->storage, wanted.address, &to,
                                   options_for(getting, wanted)));
  if (wanted.size != done.size)
    co_return fail(Failure(ErrorCode::integrity, "the object has another size than was said"));
  CO_TRY_VOID(co_await file->truncate(call, done.size));
  CO_TRY_VOID(co_await file->sync_data(call));
  take_mode(part, wanted.path);
  CO_TRY_VOID(co_await machine.disk.rename(call, part, wanted.path));
  co_return Got{done.size, done.transferred};
}

// A device or a pipe takes the bytes as they come.
Task<Outcome<Got>> get_in_place(Call call, Getting* getting, Wanted wanted, Target target) {
  io::Machine& machine = getting->session->machine;
  CO_TRY(const int descriptor, co_await open_in_place(call, &machine.pool, std::move(target)));
  DescriptorDestination to(machine.pool, descriptor);
  auto done = co_await client::download(call, getting->session->storage, wanted.address, &to,
                                        options_for(getting, wanted));
  const bool closed = close(descriptor) == 0;
  if (!done) co_return fail(std::move(done.error()));
  if (!closed) co_return fail(Failure(ErrorCode::io_failed, "cannot be written"));
  co_return Got{done->size, done->transferred};
}

// Downloads to the path that a person gave.
Task<Outcome<Got>> get_to_target(Call call, Getting* getting, Wanted wanted) {
  CO_TRY(Target target, find_target(wanted.path));
  if (target.in_place) co_return co_await get_in_place(call, getting, std::move(wanted), std::move(target));
  wanted.path = std::move(target.path);
  co_return co_await get_file(call, getting, std::move(wanted));
}

void tell(Getting* getting, const Wanted& wanted, std::string_view shown, const Outcome<Got>& got) {
  const Terminal& terminal = getting->session->terminal;
  getting->progress.clear();
  if (!got) {
    getting->exits.add(exit_of(got.error()));
    getting->refusal.add(got.error());
    getting->refusal.tell(got.error(), shown);
    return;
  }
  getting->exits.add(Exit::ok);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("path", wanted.path).field("address", format_address(wanted.address));
    json.field("size", got->size).field("transferred", got->transferred).end_object().finish();
    terminal.line(text);
  } else if (!terminal.quiet()) {
    terminal.line(printable(wanted.path));
  }
}

Task<> get_entry(Call call, Getting* getting, std::string root, const format::ManifestEntry* entry) {
  if (getting->refusal.repeats()) {
    getting->refusal.skip(1, getting->exits);
    co_return;
  }
  Wanted wanted{root + "/" + entry->path, entry->address, entry->size};
  Outcome<Got> got;
  if (auto made = make_parents(root, entry->path); !made)
    got = fail(std::move(made.error()));
  else
    got = co_await get_file(call, getting, wanted);
  tell(getting, wanted, wanted.path, got);
}

Task<Exit> get_tree(Call call, Getting* getting, format::Manifest manifest, std::string root) {
  const Terminal& terminal = getting->session->terminal;
  if (look_at(root, true).kind == FileKind::absent && mkdir(root.c_str(), 0777) != 0) {
    terminal.complain(
        Failure(ErrorCode::io_failed, fmt::format("the directory cannot be made: {}", std::strerror(errno))),
        root);
    co_return Exit::failed;
  }
  if (look_at(root, true).kind != FileKind::directory) {
    terminal.complain(Failure(ErrorCode::conflict, "is not a directory"), root);
    co_return Exit::conflict;
  }
  for (const format::ManifestEntry& entry : manifest.entries) getting->progress.expect(entry.size);
  co_await run_parallel(
      call, &getting->session->machine.shard, manifest.entries.size(), files_at_once,
      [&](Call each, std::size_t i) { return get_entry(each, getting, root, &manifest.entries[i]); });
  if (call.stopped()) co_return Exit::interrupted;
  getting->progress.clear();
  getting->refusal.conclude();
  const Exit exit = getting->exits.exit();
  if (exit == Exit::ok) terminal.say(fmt::format("{} files in {}", manifest.entries.size(), printable(root)));
  co_return exit;
}

// The last part of a path inside a manifest, or of a name, else the beginning of the address.
std::string usual_name(const Found& found) {
  const std::string& path = found.path.empty() ? found.name : found.path;
  if (path.empty()) return format_address(found.info.address).substr(3, 16);
  return path.substr(path.rfind('/') + 1);
}

Task<Exit> get_named(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  const std::string& name = session->invocation.arguments[0];
  auto found = co_await find_object(call, session, name);
  if (!found) {
    terminal.complain(found.error(), name);
    co_return exit_of(found.error());
  }
  std::string to(session->invocation.get("output", usual_name(*found)));
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  const bool raw = session->invocation.has("raw");
  const auto target = find_target(to);
  if (to == "-" || (target && target->descriptor == 1))
    co_return co_await write_to_stdout(call, session, *found, raw);
  Getting getting(session);
  if (found->is_manifest() && !raw) {
    auto manifest = co_await read_manifest(call, session, found->info.address);
    if (!manifest) {
      terminal.complain(manifest.error(), name);
      co_return exit_of(manifest.error());
    }
    co_return co_await get_tree(call, &getting, std::move(*manifest), std::move(to));
  }
  if (look_at(to, true).kind == FileKind::directory) to += "/" + usual_name(*found);
  const Wanted wanted{to, found->info.address, found->size.value_or(found->info.size)};
  getting.progress.expect(wanted.size);
  const auto got = co_await get_to_target(call, &getting, wanted);
  tell(&getting, wanted, name, got);
  if (call.stopped()) terminal.say("interrupted; the same command goes on where it was");
  co_return getting.exits.exit();
}

}  // namespace

int get_verb(const Invocation& invocation) { return ask_about_objects(invocation, get_named); }

}  // namespace cairn::cli
