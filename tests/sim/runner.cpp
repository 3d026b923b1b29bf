#include "runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include "codec/json_writer.h"

namespace cairn::simulator {
namespace {

constexpr std::uint64_t rerun_every = 20;
constexpr std::uint64_t batch_size = 25;
constexpr unsigned seed_patience_s = 120;  // of real time

struct Batch {
  std::uint64_t first, count;
};

// --- one process

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', '\r');
  return text;
}

void say(int fd, const std::string& line) {
  const std::string text = line + "\n";
  CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

[[noreturn]] void run_batch(const Kind& kind, const Batch& batch, int out, const std::string& program) {
  io::sim::Probes probes;
  for (std::uint64_t seed = batch.first; seed < batch.first + batch.count; ++seed) {
    alarm(seed_patience_s);
    const double before = cpu_seconds();
    const Report report = kind.make(seed, {}, probes)->run();
    if (!report.violation.empty()) say(out, fmt::format("violation {} {}", seed, one_line(report.violation)));
    say(out, fmt::format("seed {} {} {} {} {}", seed, report.completed, report.steps,
                         report.simulated.to_seconds(), cpu_seconds() - before));
    if (seed % rerun_every != 0) continue;
    const std::string mine = fmt::format("{:016x}", report.hash);
    const std::string theirs = hash_of_fresh_process(program, kind, seed, "");
    say(out, fmt::format("rerun {} {} {}", seed, mine, theirs.empty() ? "nothing" : theirs));
  }
  for (const std::string& name : probes.missed()) say(out, "missed " + name);
  say(out, "end");
  std::_Exit(0);
}

// --- all of them

class Runner {
 public:
  Runner(const Kind& kind, std::uint64_t first, std::uint64_t count, unsigned jobs, std::string program)
      : kind_(kind), jobs_(jobs), program_(std::move(program)) {
    while (count > 0) {
      const std::uint64_t size = std::min(count, batch_size);
      batches_.push_back({first, size});
      first += size;
      count -= size;
    }
    std::reverse(batches_.begin(), batches_.end());
  }

  Totals run() {
    const auto start = std::chrono::steady_clock::now();
    while (!batches_.empty() || !children_.empty()) {
      while (!batches_.empty() && children_.size() < jobs_) launch();
      listen();
    }
    if (never_reached_) totals_.missed = *never_reached_;
    for (const std::string_view name : kind_.not_used) totals_.missed.erase(std::string(name));
    totals_.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(totals_);
  }

 private:
  struct Child {
    pid_t pid;
    int in;
    Batch left;  // seeds not yet reported
    bool ended = false;
    std::string text;
    std::set<std::string> missed;
  };

  void launch() {
    const Batch batch = batches_.back();
    batches_.pop_back();
    int ends[2];
    CHECK(pipe(ends) == 0);
    std::fflush(nullptr);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      close(ends[0]);
      run_batch(kind_, batch, ends[1], program_);
    }
    close(ends[1]);
    children_.push_back({pid, ends[0], batch, false, {}, {}});
  }

  void listen() {
    std::vector<pollfd> fds;
    for (const Child& child : children_) fds.push_back({child.in, POLLIN, 0});
    CHECK(poll(fds.data(), fds.size(), -1) >= 0);
    for (std::size_t i = fds.size(); i-- > 0;) {
      if (fds[i].revents == 0) continue;
      Child& child = children_[i];
      char room[65'536];
      const ssize_t got = read(child.in, room, sizeof room);
      if (got > 0) {
        child.text.append(room, static_cast<std::size_t>(got));
        take_lines(child);
        continue;
      }
      bury(child);
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void take_lines(Child& child) {
    for (std::size_t end; (end = child.text.find('\n')) != std::string::npos; child.text.erase(0, end + 1))
      take_line(child, child.text.substr(0, end));
  }

  void take_line(Child& child, const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "seed") {
      std::uint64_t seed = 0, completed = 0, steps = 0;
      double simulated = 0, cpu = 0;
      words >> seed >> completed >> steps >> simulated >> cpu;
      ++totals_.seeds;
      totals_.completed += completed;
      totals_.steps += steps;
      totals_.simulated_seconds += simulated;
      totals_.cpu_seconds += cpu;
      child.left.count -= seed + 1 - child.left.first;
      child.left.first = seed + 1;
    } else if (kind == "violation") {
      std::uint64_t seed = 0;
      words >> seed;
      std::string what;
      std::getline(words, what);
      std::replace(what.begin(), what.end(), '\r', '\n');
      found(seed, what);
    } else if (kind == "rerun") {
      std::uint64_t seed = 0;
      std::string mine, theirs;
      words >> seed >> mine >> theirs;
      ++totals_.reruns;
      if (mine != theirs) found(seed, fmt::format(" hash {}, in a fresh process {}", mine, theirs));
    } else if (kind == "missed") {
      std::string name;
      words >> name;
      child.missed.insert(name);
    } else if (kind == "end") {
      child.ended = true;
    }
  }

  // A batch that did not come to its end died in its first seed without a report; the others go on.
  void bury(Child& child) {
    int status = 0;
    waitpid(child.pid, &status, 0);
    close(child.in);
    if (child.ended) {
      if (!never_reached_) never_reached_ = child.missed;
      std::erase_if(*never_reached_, [&](const std::string& name) { return !child.missed.contains(name); });
      return;
    }
    ++totals_.seeds;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    found(child.left.first, signal == SIGALRM ? " has no end"
                            : signal != 0     ? fmt::format(" died: {}", strsignal(signal))
                                              : fmt::format(" left with {}", WEXITSTATUS(status)));
    if (child.left.count > 1) batches_.push_back({child.left.first + 1, child.left.count - 1});
  }

  void found(std::uint64_t seed, const std::string& what) {
    totals_.findings.push_back({seed, what});
    fmt::print("seed {}:{}\n  replay: ./dev sim --scenario {} --seed {}\n", seed, what, kind_.name, seed);
    std::fflush(stdout);
  }

  const Kind& kind_;
  unsigned jobs_;
  std::string program_;
  std::vector<Batch> batches_;
  std::vector<Child> children_;
  std::optional<std::set<std::string>> never_reached_;
  Totals totals_;
};

}  // namespace

std::string hash_of_fresh_process(const std::string& program, const Kind& kind, std::uint64_t seed,
                                  const std::string& more) {
  const std::string command =
      fmt::format("exec '{}' --scenario {} --seed {} --hash {}", program, kind.name, seed, more);
  std::FILE* pipe = popen(command.c_str(), "r");
  CHECK(pipe != nullptr);
  char line[64] = {};
  const bool got = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = got ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Totals run_seeds(const Kind& kind, std::uint64_t first, std::uint64_t count, unsigned jobs,
                 const std::string& program) {
  return Runner(kind, first, count, jobs, program).run();
}

std::string to_json(const Totals& totals) {
  std::string out;
  codec::JsonWriter json(out);
  json.begin_object()
      .field("seeds", totals.seeds)
      .field("requests", totals.completed)
      .field("steps", totals.steps);
  json.field("simulated_seconds", totals.simulated_seconds).field("cpu_seconds", totals.cpu_seconds);
  json.field("wall_seconds", totals.wall_seconds);
  json.field("requests_per_simulated_second", totals.requests_per_second());
  json.field("simulated_hours_per_cpu_hour", totals.speed());
  json.field("reruns", totals.reruns);
  json.key("failed").begin_array();
  for (const Finding& finding : totals.findings)
    json.begin_object()
        .field("seed", finding.seed)
        .field("what", std::string_view(finding.what))
        .end_object();
  json.end_array().key("probes_missed").begin_array();
  for (const std::string& name : totals.missed) json.value(std::string_view(name));
  json.end_array().end_object().finish();
  return out;
}

}  // namespace cairn::simulator
