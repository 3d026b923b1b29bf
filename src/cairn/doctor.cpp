// `cairn doctor`: what is wrong here, and what to do about it.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "cairn/local_daemon.h"
#include "cairn/local_files.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "io/process.h"
#include "serve/root_keys.h"

namespace cairn::cli {
namespace {

constexpr Duration registry_patience = Duration::seconds(3);

enum class Verdict : std::uint8_t { ok, warn, fail };

struct Finding {
  std::string_view check;
  Verdict verdict;
  std::string what;
  std::string hint = {};
};

class Report {
 public:
  explicit Report(const Terminal& terminal) : terminal_(terminal) {}
  void add(Finding finding) {
    constexpr std::string_view names[] = {"ok", "warn", "fail"};
    const std::string_view verdict = names[static_cast<std::size_t>(finding.verdict)];
    failed_ |= finding.verdict == Verdict::fail;
    if (terminal_.json()) {
      std::string text;
      codec::JsonWriter json(text);
      json.begin_object().field("check", finding.check).field("verdict", verdict).field("what", finding.what);
      if (!finding.hint.empty()) json.field("hint", finding.hint);
      json.end_object().finish();
      terminal_.line(text);
      return;
    }
    if (terminal_.quiet() && finding.verdict == Verdict::ok) return;
    terminal_.line(fmt::format("{:<5} {:<12} {}", verdict, finding.check, printable(finding.what)));
    if (!finding.hint.empty()) terminal_.line(fmt::format("{:<18} {}", "", finding.hint));
  }
  bool failed() const noexcept { return failed_; }

 private:
  const Terminal& terminal_;
  bool failed_ = false;
};

void check_data_directory(Report& report, const std::string& data) {
  struct stat is{};
  if (stat(data.c_str(), &is) != 0) {
    report.add({"data", Verdict::warn, fmt::format("{} is not there", data),
                "cairn up makes it; or name another: --data DIR"});
    return;
  }
  if (!S_ISDIR(is.st_mode))
    report.add({"data", Verdict::fail, fmt::format("{} is not a directory", data)});
  else if ((is.st_mode & 0022) != 0)
    report.add({"data", Verdict::fail, fmt::format("{} can be written by others", data),
                fmt::format("chmod go-w {}", data)});
  else if (access(data.c_str(), R_OK | X_OK) != 0)
    report.add({"data", Verdict::warn, fmt::format("{} belongs to another user", data)});
  else
    report.add({"data", Verdict::ok, absolute_path(data)});
}

// The advice for a secret that others may know.
std::string cure_of(const std::string& path, const std::string& data) {
  if (path.ends_with("/capability-root.key") || path.ends_with(".cap"))
    return fmt::format("cairn cap revoke KEYID --data {}; cairn cap inspect tells the key of a token", data);
  if (path.ends_with("/registry-log.key"))
    return "make a registry anew: this one's checkpoints can be forged";
  return "propose a signer_set without it: cairn registry propose";
}

void check_keys(Report& report, const std::string& data) {
  const std::string keys = data + "/keys";
  struct stat is{};
  if (stat(keys.c_str(), &is) != 0) return;
  if ((is.st_mode & 0077) != 0)
    report.add({"keys", Verdict::fail, fmt::format("{} is open to others", keys),
                fmt::format("chmod 700 {}", keys)});
  std::error_code problem;
  std::size_t count = 0;
  bool all_well = (is.st_mode & 0077) == 0;
  for (std::filesystem::directory_iterator at(keys, problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string path = at->path().string();
    if (!path.ends_with(".key") && !path.ends_with(".cap")) continue;
    ++count;
    if (stat(path.c_str(), &is) == 0 && (is.st_mode & 0077) != 0) {
      all_well = false;
      report.add(
          {"keys", Verdict::fail, fmt::format("{} can be read by others", path),
           fmt::format("chmod 600 {}; then consider its secret known: {}", path, cure_of(path, data))});
    }
  }
  const std::string root = keys + "/capability-root.key";
  if (stat(root.c_str(), &is) == 0)
    if (const auto opened = serve::RootKeys::open(root); !opened) {
      all_well = false;
      report.add(
          {"keys", Verdict::fail, fmt::format("{}: {}", root, opened.error().context),
           "bring it back from a copy; else move it and admin.cap away: the next start makes new ones, and "
           "every token is void"});
    }
  if (problem)
    report.add({"keys", Verdict::warn, fmt::format("{} cannot be listed", keys)});
  else if (all_well)
    report.add({"keys", Verdict::ok, fmt::format("{} key files, for their owner only", count)});
}

void check_space(Report& report, const std::string& data) {
  struct statvfs is{};
  const std::string place = look_at(data, true).kind == FileKind::directory ? data : ".";
  if (statvfs(place.c_str(), &is) != 0) return;
  if ((is.f_flag & ST_RDONLY) != 0)
    report.add({"space", Verdict::fail,
                fmt::format("{} is on a file system that cannot be written to", place),
                "mount it read-write; after an error of the drive look at that first (dmesg)"});
  const std::uint64_t free = std::uint64_t{is.f_bavail} * is.f_frsize;
  const std::uint64_t total = std::uint64_t{is.f_blocks} * is.f_frsize;
  std::string what = fmt::format("{} free of {}", human_bytes(free), human_bytes(total));
  // The service itself says how much it needs free (check_store).
  const bool few = is.f_files > 0 && is.f_favail < is.f_files / 20;
  if (is.f_files > 0) what += fmt::format(", {} files of {}", is.f_favail, is.f_files);
  if (few)
    report.add({"space", Verdict::warn, what, "less than 5 % of its files (inodes) are left"});
  else if (free < total / 20)
    report.add({"space", Verdict::warn, what, "less than 5 % is left"});
  else
    report.add({"space", Verdict::ok, what});
}

void check_files(Report& report) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::string what = fmt::format("{} open files at most", limit.rlim_max);
  if (limit.rlim_max < 4096)
    report.add({"files", Verdict::warn, what,
                "server.max_conns may be half of it: raise it (ulimit -Hn, LimitNOFILE=)"});
  else
    report.add({"files", Verdict::ok, what});
}

Task<> check_clock(Call call, Session* session, Report* report) {
  client::Ask ask{.target = "/version", .patient = false};
  const auto answer = co_await session->storage->transport().send(call, std::move(ask));
  if (!answer) co_return;
  const auto date = parse_http_date(answer->head().fields.get(http::FieldName::date));
  if (!date) co_return;
  const std::int64_t apart = (io::wall_clock().ms - date->ms) / 1000;
  const std::string what = fmt::format("{} s apart from the server's", apart < 0 ? -apart : apart);
  if (apart < -60 || apart > 60)
    report->add({"clock", Verdict::warn, what,
                 "capabilities expire by the clock: set it (timedatectl set-ntp true)"});
  else
    report->add({"clock", Verdict::ok, what});
}

void tell_readiness(Report& report, std::string_view check, const client::Outcome<client::Readiness>& ready) {
  if (!ready) return report.add({check, Verdict::fail, ready.error().message, "the service's log says why"});
  if (ready->ready && ready->write_ready) return report.add({check, Verdict::ok, "for reads and writes"});
  std::string missing;
  for (const std::string& gate : ready->missing) missing += (missing.empty() ? "" : ", ") + gate;
  report.add({check, Verdict::fail,
              fmt::format("{} (missing: {})", ready->ready ? "for reads only" : "no", missing),
              "the service's log says why"});
}

// Checks the data directory's registry, where one runs.
Task<> check_registry(Call call, Session* session, Report* report) {
  const std::vector<Endpoint> found = find_daemon(session->data, "registry");
  if (found.empty()) co_return;
  client::TransportOptions options;
  options.endpoint = found.front();
  client::Transport transport(session->machine, std::move(options));
  {
    client::StorageClient asked(transport);
    tell_readiness(*report, "registry", co_await asked.readiness(call.within(registry_patience)));
  }
  co_await transport.close(call.unbounded());
}

Task<> check_store(Call call, Session* session, Report* report) {
  const auto status = co_await session->storage->status(call);
  if (!status) {
    report->add({"store", Verdict::warn, fmt::format("its status was refused: {}", status.error().message),
                 "a capability with storage.admin is needed: CAIRN_CAP, or --data DIR"});
    co_return;
  }
  codec::JsonReader reader({.bytes = 4 << 20});
  const auto root = reader.parse(*status);
  if (!root) co_return;
  auto object = root->object();
  if (!object) co_return;
  const auto quarantined = object->optional_uint("quarantined");
  const std::uint64_t count = quarantined ? quarantined->value_or(0) : 0;
  if (count > 0)
    report->add({"store", Verdict::fail,
                 fmt::format("{} objects are quarantined: their bytes on disk are wrong", count),
                 "check the drive (smartctl), then put the objects again"});
  if (const auto places = object->optional_items("data_dirs"); places && *places)
    for (const codec::JsonValue place : **places) {
      auto one = place.object();
      if (!one) continue;
      const auto name = one->optional_string("directory");
      const std::string directory(name ? name->value_or("?") : "?");
      if (one->optional_bool("fenced").value_or(std::nullopt).value_or(false))
        report->add({"store", Verdict::fail,
                     fmt::format("{} takes no writes since an error of the drive", directory),
                     "restart the service: it verifies the log again"});
      const auto lost = one->optional_uint("lost_segments");
      const auto first = one->optional_uint("first_lost_segment");
      if (!one->optional_bool("whole").value_or(std::nullopt).value_or(true))
        report->add(
            {"store", Verdict::fail,
             lost && lost->value_or(0) > 0
                 ? fmt::format(
                       "{} has lost a part of its log ({} files are missing, such as that of segment {})",
                       directory, lost->value_or(0), first ? first->value_or(0) : 0)
                 : fmt::format("{} has lost a part of its log", directory),
             "bring the files back and restart, or put the objects again; else: cairn doctor --accept-loss"});
      if (const auto bad = one->optional_uint("damaged_places"); bad && bad->value_or(0) > 0)
        report->add({"store", Verdict::warn,
                     fmt::format("{} places in the log of {} cannot be read", bad->value_or(0), directory),
                     "the service's log names each; check the drive (smartctl)"});
      const auto foreign = one->optional_uint("foreign_files");
      if (foreign && foreign->value_or(0) > 0)
        report->add({"store", Verdict::warn,
                     fmt::format("{} has {} files that are not of its log (*.foreign)", directory,
                                 foreign->value_or(0)),
                     "the service's log names each, and the number it belongs under: move them away"});
      const auto index = one->optional_string("index");
      const std::string_view state = index ? index->value_or("ok") : "ok";
      if (state == "no_room")
        report->add({"store", Verdict::fail,
                     fmt::format("the index of {} is damaged, and there is no room for a new one beside it",
                                 directory),
                     "make room, or restart the service: it makes the index anew from the log"});
      else if (state != "ok")
        report->add({"store", Verdict::warn,
                     fmt::format("the index of {} was damaged and is being made anew", directory),
                     "some objects answer 503 until then; check the drive (smartctl)"});
      if (one->optional_bool("full").value_or(std::nullopt).value_or(false))
        report->add({"store", Verdict::fail,
                     fmt::format("{} is full, of bytes or of files: writes are refused (507)", directory),
                     "make room; reads and deletes go on"});
      else if (const auto room = one->optional_uint("room_bytes"); room && room->value_or(0) > 0)
        report->add(
            {"store", Verdict::ok, fmt::format("{} has room for {}", directory, human_bytes(**room))});
    }
  if (count == 0) report->add({"store", Verdict::ok, "nothing is quarantined"});
}

// Whether every directory reports that it lost nothing.
bool is_whole(const std::string& status) {
  codec::JsonReader reader({.bytes = 4 << 20});
  const auto root = reader.parse(status);
  if (!root) return false;
  auto object = root->object();
  if (!object) return false;
  const auto places = object->optional_items("data_dirs");
  if (!places || !*places) return false;
  for (const codec::JsonValue place : **places) {
    auto one = place.object();
    if (!one || !one->optional_bool("whole").value_or(std::nullopt).value_or(false)) return false;
  }
  return true;
}

// Many objects may be lost. The server drops them one by one; the next `cairn doctor` shows how far it is.
Task<Exit> accept_losses(Call call, Session* session) {
  if (const auto status = co_await session->storage->status(call); status && is_whole(*status)) {
    if (session->terminal.json())
      session->terminal.line(R"({"accepted":false})");
    else
      session->terminal.say("nothing is lost");
    co_return Exit::ok;
  }
  const auto accepted = co_await session->storage->accept_losses(call);
  if (!accepted) {
    session->terminal.complain(accepted.error());
    co_return exit_of(accepted.error());
  }
  if (session->terminal.json())
    session->terminal.line(R"({"accepted":true})");
  else
    session->terminal.say("what is lost is given up; the service's log names each object");
  co_return Exit::ok;
}

Task<Exit> examine(Call call, Session* session) {
  if (session->invocation.has("accept-loss") && !session->unreachable)
    co_return co_await accept_losses(call, session);
  Report report(session->terminal);
  check_data_directory(report, session->data);
  check_keys(report, session->data);
  check_space(report, session->data);
  check_files(report);
  if (session->unreachable && !find_daemon(session->data, "registry").empty()) {
    report.add({"server", Verdict::ok, "a registry; no storage runs here"});
    co_await check_registry(call, session, &report);
    co_return report.failed() ? Exit::failed : Exit::ok;
  }
  if (session->unreachable) {
    const client::Failure& why = *session->unreachable;
    report.add({"server", Verdict::fail,
                why.asked.empty() ? why.message : fmt::format("none answers at {}", why.asked), why.hint});
    co_return Exit::failed;
  }
  report.add({"server", Verdict::ok, session->where});
  if (session->server.version != CAIRN_VERSION)
    report.add({"version", Verdict::warn,
                fmt::format("the server is {}, this is {}", session->server.version, CAIRN_VERSION),
                "update the older one"});
  else
    report.add({"version", Verdict::ok, session->server.version});
  tell_readiness(report, "ready", co_await session->storage->readiness(call));
  co_await check_clock(call, session, &report);
  if (session->server.service != "registry") co_await check_store(call, session, &report);
  co_await check_registry(call, session, &report);
  co_return report.failed() ? Exit::failed : Exit::ok;
}

}  // namespace

int doctor_verb(const Invocation& invocation) { return run_session(invocation, examine, Server::useful); }

}  // namespace cairn::cli
