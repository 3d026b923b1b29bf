// explorer [MODEL…] [--brute] [--quick] [--replay TAPE] [--json FILE]: explores the named models, or all.
//
// For each model: tasks, the longest schedule, schedules before reduction (exact by brute force below three
// million, which must then reach the same terminal states; above, ≈ an estimate) and after, runs cut short as
// equivalent, terminal states, time. Status 1 when there is a finding, or when a model that is wrong on
// purpose is not found out.
//   --brute   no reduction at all, for as long as it takes
//   --quick   the reduced exploration alone; ends at the first finding
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "model/models.h"

using namespace cairn::model;

namespace {

constexpr std::uint64_t exact_below = 3'000'000;

struct Arguments {
  Options options;
  std::vector<std::string> models;
  std::string json;
  bool quick = false;

  bool wants(const ModelSpec& spec) const {
    return models.empty() || std::find(models.begin(), models.end(), spec.name) != models.end();
  }
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--brute") {
      arguments.options.reduce = false;
      arguments.options.max_schedules = 1'000'000'000;
    } else if (text == "--quick")
      arguments.quick = true;
    else if (text == "--replay" && i + 1 < argc)
      arguments.options.replay = parse_tape(argv[++i]);
    else if (text == "--json" && i + 1 < argc)
      arguments.json = argv[++i];
    else if (text.starts_with("-"))
      return std::nullopt;
    else
      arguments.models.push_back(text);
  }
  return arguments;
}

struct Before {
  double schedules = 0;
  bool exact = false;
  bool same_states = true;
};

// What the model would cost without reduction, and whether reduction lost any terminal state.
Before measure_before(const ModelSpec& spec, const Report& reduced) {
  Before before{.schedules = estimate_schedules(spec, 2'000, 1)};
  if (before.schedules >= 1.5 * static_cast<double>(exact_below)) return before;
  Options plain;
  plain.reduce = false;
  plain.max_schedules = exact_below;
  const Report brute = explore(spec, plain);
  if (!brute.exhausted) return before;
  for (const std::string& state : brute.terminal_states)
    if (!reduced.terminal_states.contains(state)) fmt::print("  lost by reduction: {}\n", state);
  return {static_cast<double>(brute.schedules), true, brute.terminal_states == reduced.terminal_states};
}

std::string format_count(double count, bool exact) {
  if (exact || count < 1e7) return fmt::format("{}{:.0f}", exact ? "" : "≈", count);
  return fmt::format("≈{:.2e}", count);
}

// Explores a model that is wrong on purpose in a process of its own, since the finding may end it.
bool found_out(const ModelSpec& spec) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    (void)explore(spec);
    std::fflush(stdout);
    std::_Exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  const bool found = said.find(spec.expected) != std::string::npos;
  fmt::print("{:32} wrong on purpose, {} ({})\n", spec.name, found ? "found out" : "NOT FOUND OUT",
             spec.expected);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Arguments> arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "usage: explorer [MODEL…] [--brute] [--quick] [--replay TAPE] [--json FILE]\n");
    return 2;
  }
  const bool compare = !arguments->quick && arguments->options.reduce && arguments->options.replay.empty();
  std::string json;
  int explored = 0, failures = 0;
  double seconds = 0;
  if (compare)
    fmt::print("{:32} {:>5} {:>6} {:>10} {:>9} {:>9} {:>6} {:>7} {:>9}\n", "model", "tasks", "awaits",
               "before", "after", "pruned", "states", "seconds", "per s");
  for (const ModelSpec& spec : all_models()) {
    if (!arguments->wants(spec)) continue;
    ++explored;
    if (spec.expected != nullptr) {
      if (!arguments->options.replay.empty()) (void)explore(spec, arguments->options);
      if (compare && !found_out(spec)) ++failures;
      continue;
    }
    const Report report = explore(spec, arguments->options);
    seconds += report.seconds;
    if (!report.oracle.empty()) {
      ++failures;
      if (arguments->quick) return 1;
      continue;
    }
    if (!arguments->options.replay.empty()) continue;
    if (!report.exhausted) ++failures;
    const Before before =
        compare ? measure_before(spec, report)
                : Before{static_cast<double>(report.schedules), !arguments->options.reduce, true};
    if (!before.same_states) ++failures;
    const double rate =
        static_cast<double>(report.schedules + report.pruned) / std::max(report.seconds, 1e-9);
    fmt::print("{:32} {:>5} {:>6} {:>10} {:>9} {:>9} {:>6} {:>7.2f} {:>9.0f}{}{}\n", spec.name, report.tasks,
               report.awaits, compare ? format_count(before.schedules, before.exact) : "", report.schedules,
               report.pruned, report.terminal_states.size(), report.seconds, rate,
               report.exhausted ? "" : "  NOT EXHAUSTED",
               before.same_states ? "" : "  REDUCTION LOST A STATE");
    std::fflush(stdout);
    json += fmt::format(
        "{}  {{\"model\": \"{}\", \"tasks\": {}, \"awaits\": {}, \"before\": {:.0f}, \"before_exact\": {}, "
        "\"after\": {}, \"pruned\": {}, \"states\": {}, \"seconds\": {:.3f}, \"exhausted\": {}}}",
        json.empty() ? "" : ",\n", spec.name, report.tasks, report.awaits, before.schedules, before.exact,
        report.schedules, report.pruned, report.terminal_states.size(), report.seconds, report.exhausted);
  }
  if (!arguments->json.empty()) std::ofstream(arguments->json) << "[\n" << json << "\n]\n";
  if (explored == 0) {
    fmt::print(stderr, "no such model\n");
    return 2;
  }
  fmt::print("{} models, {} findings, {:.1f} s\n", explored, failures, seconds);
  return failures != 0;
}
