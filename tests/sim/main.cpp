// sim --seeds N [--first S] [--jobs J] [--json FILE]   many seeds; fails on any finding or unreached probe
// sim --seed S [--verbose]                             one seed again
// sim --plant pointer|clock                            that planted nondeterminism changes the hash
// Each with --scenario NAME: what is served in the world; --help lists them.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "runner.h"

using namespace cairn;

namespace {

// Fewer seeds may well miss something.
constexpr std::uint64_t probes_need = 500;

struct Arguments {
  std::uint64_t seeds = 1000, first = 1, jobs = 2;
  std::optional<std::uint64_t> seed;
  std::string json, plant, planted;
  const simulator::Kind* kind = &simulator::kinds().front();
  bool verbose = false, hash = false, help = false, wrong = false;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto text = [&]() -> std::string { return i + 1 < argc ? argv[++i] : (a.wrong = true, ""); };
    const auto number = [&] {
      const std::string digits = text();
      std::uint64_t value = 0;
      const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (problem != std::errc() || end != digits.data() + digits.size()) a.wrong = true;
      return value;
    };
    if (arg == "--seeds")
      a.seeds = number();
    else if (arg == "--first")
      a.first = number();
    else if (arg == "--jobs")
      a.jobs = number();
    else if (arg == "--seed")
      a.seed = number();
    else if (arg == "--json")
      a.json = text();
    else if (arg == "--plant")
      a.plant = text();
    else if (arg == "--planted")
      a.planted = text();
    else if (arg == "--scenario")
      a.kind = simulator::find_kind(text());
    else if (arg == "--help")
      a.help = true;
    else if (arg == "--verbose")
      a.verbose = true;
    else if (arg == "--hash")
      a.hash = true;
    else
      a.wrong = true;
  }
  const auto is_plant = [](const std::string& name) {
    return name.empty() || name == "pointer" || name == "clock";
  };
  if (!is_plant(a.plant) || !is_plant(a.planted) || a.jobs == 0 || a.kind == nullptr) a.wrong = true;
  return a;
}

int one_seed(const Arguments& a) {
  io::sim::Probes probes;
  const simulator::Options options{
      .verbose = a.verbose, .plant_pointer = a.planted == "pointer", .plant_clock = a.planted == "clock"};
  const simulator::Report report = a.kind->make(*a.seed, options, probes)->run();
  if (a.hash) {
    fmt::print("{:016x}\n", report.hash);
    return 0;
  }
  if (!report.violation.empty()) fmt::print("seed {}: {}\n", report.seed, report.violation);
  fmt::print("seed {}: hash {:016x}, {} requests in {:.1f} simulated seconds, {} steps: {}\n", report.seed,
             report.hash, report.completed, report.simulated.to_seconds(), report.steps,
             report.violation.empty() ? "ok" : "FAILED");
  return report.violation.empty() ? 0 : 1;
}

// Pointers at equal distances have few orders, so that two processes may agree by chance; five do not.
constexpr int planted_runs = 5;

// Each seed several times in fresh processes: equal without the plant, not all equal with it.
int self_test(const simulator::Kind& kind, const std::string& plant, const std::string& program) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const std::string planted = "--planted " + plant;
    const std::string clean[] = {simulator::hash_of_fresh_process(program, kind, seed, ""),
                                 simulator::hash_of_fresh_process(program, kind, seed, "")};
    const std::string dirty = simulator::hash_of_fresh_process(program, kind, seed, planted);
    std::string other = dirty;
    for (int run = 1; run < planted_runs && other == dirty; ++run)
      other = simulator::hash_of_fresh_process(program, kind, seed, planted);
    fmt::print("seed {}: {} {} without, {} {} with the planted {}\n", seed, clean[0], clean[1], dirty, other,
               plant);
    if (clean[0].empty() || clean[0] != clean[1]) {
      fmt::print("the same seed gave two hashes\n");
      return 1;
    }
    if (dirty.empty() || other.empty() || dirty == other) {
      fmt::print("the planted {} did not change the hash\n", plant);
      return 1;
    }
  }
  fmt::print("a planted {} changes the hash\n", plant);
  return 0;
}

int many_seeds(const Arguments& a, const std::string& program) {
  const simulator::Totals totals =
      simulator::run_seeds(*a.kind, a.first, a.seeds, static_cast<unsigned>(a.jobs), program);
  bool fine = totals.findings.empty();
  if (a.seeds >= probes_need) {
    for (const std::string& name : totals.missed) fmt::print("never reached: {}\n", name);
    fine = fine && totals.missed.empty() && totals.requests_per_second() >= a.kind->least_rate &&
           totals.speed() >= a.kind->least_speed;
  }
  if (!a.json.empty()) {
    std::FILE* file = std::fopen(a.json.c_str(), "wb");
    const std::string text = simulator::to_json(totals) + "\n";
    if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
        std::fclose(file) != 0) {
      fmt::print(stderr, "cannot write {}\n", a.json);
      fine = false;
    }
  }
  fmt::print(
      "{} seeds, {} failed; {:.1f} requests per simulated second; {:.0f} simulated hours per CPU hour; {} "
      "reruns; "
      "{} probes missed; {:.0f} s: {}\n",
      totals.seeds, totals.findings.size(), totals.requests_per_second(), totals.speed(), totals.reruns,
      totals.missed.size(), totals.wall_seconds, fine ? "ok" : "FAILED");
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  if (a.wrong || a.help) {
    std::FILE* out = a.wrong ? stderr : stdout;
    fmt::print(out,
               "usage: sim [--scenario NAME] [--seeds N] [--first S] [--jobs J] [--json FILE]\n"
               "       sim [--scenario NAME] --seed S [--verbose]\n"
               "       sim [--scenario NAME] --plant pointer|clock\n"
               "scenarios:\n");
    for (const simulator::Kind& kind : simulator::kinds())
      fmt::print(out, "  {:<10}{}\n", kind.name, kind.about);
    return a.wrong ? 64 : 0;
  }
  char path[4096] = {};
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program(path, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!a.plant.empty()) return self_test(*a.kind, a.plant, program);
  return a.seed ? one_seed(a) : many_seeds(a, program);
}
