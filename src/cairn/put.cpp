// `cairn put`: files, directories and stdin become objects.
#include <fmt/format.h>

#include "cairn/naming.h"
#include "cairn/putting.h"
#include "cairn/verbs.h"
#include "client/media_type.h"
#include "crypto/blake3.h"

namespace cairn::cli {
namespace {

Task<Exit> put_all(Call call, Session* session) {
  Putting putting(session, true);
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
      tell_no_file(&putting, path, facts.kind);
  }
  co_await put_files(call, &putting, &files);
  if (call.stopped()) {
    putting.progress.clear();
    session->terminal.say("interrupted; the same command goes on where it was");
    co_return Exit::interrupted;
  }
  putting.progress.clear();
  putting.refusal.conclude();
  co_return putting.exit();
}

// One thing, which gets a name when all of it is stored.
Task<Exit> put_and_name(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  Putting putting(session, false);
  co_await put_as_one(call, &putting, session->invocation.arguments);
  putting.progress.clear();
  if (call.stopped()) {
    terminal.say("interrupted; the same command goes on where it was");
    co_return Exit::interrupted;
  }
  putting.refusal.conclude();
  if (putting.exits.exit() != Exit::ok) co_return putting.exit();
  if (putting.exit() != Exit::ok) {
    print_put(terminal, putting.last, {});
    terminal.warn("it has no name yet, because something was skipped; cairn name set names it as it is");
    co_return putting.exit();
  }
  auto wish = read_wish(session->invocation, std::string(*session->invocation.find("name")));
  if (!wish) co_return Exit::usage;
  wish->manifest = putting.last.stored.address;
  const auto set = co_await set_name(call, session, *wish, std::move(putting.manifest));
  print_put(terminal, putting.last, set ? std::optional(set->now) : std::nullopt);
  if (!set) {
    if (set.error().code() != ErrorCode::cancelled) terminal.complain(set.error(), wish->name);
    co_return exit_of(set.error());
  }
  terminal.say(fmt::format("{} leads there now (sequence {})", set->now.name, set->now.sequence));
  co_return putting.exit();
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
  for (const std::string_view flag : {"note", "if-match", "new"})
    if (invocation.has(flag) && !invocation.has("name"))
      return complain_usage(invocation, fmt::format("--{} goes with --name", flag));
  if (const auto name = invocation.find("name")) {
    if (invocation.arguments.size() != 1)
      return complain_usage(invocation, "--name names one PATH",
                            "cairn name set NAME PATH… names several as one directory");
    if (const auto wish = read_wish(invocation, std::string(*name)); !wish)
      return complain_usage(invocation, wish.error().message);
    return run_session(invocation, put_and_name, Server::of_objects);
  }
  return run_session(invocation, put_all, Server::of_objects);
}

}  // namespace cairn::cli
