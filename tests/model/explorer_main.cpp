// explorer [MODEL…] [--brute] [--replay TAPE]: explores the named models (all by default).
#include <fmt/format.h>

#include <cstring>
#include <string>

#include "model/queue_models.h"

using namespace cairn::model;

int main(int argc, char** argv) {
  std::vector<ModelSpec> models;
  add_queue_models(models);
  Options options;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--brute") == 0)
      options.reduce = false;
    else if (std::strcmp(argv[i], "--replay") == 0 && i + 1 < argc)
      options.replay = parse_tape(argv[++i]);
    else
      wanted.emplace_back(argv[i]);
  }
  int failures = 0;
  for (const ModelSpec& spec : models) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), spec.name) == wanted.end()) continue;
    Report r = explore(spec, options);
    fmt::print("{:34} tasks={} awaits={} schedules={} pruned={} states={} exhausted={} {:.2f}s {:.0f}/s est={:.3g} {}\n", spec.name,
               r.tasks, r.awaits, r.schedules, r.pruned, r.terminal_states.size(), r.exhausted, r.seconds,
               static_cast<double>(r.schedules + r.pruned) / r.seconds, estimate_schedules(spec, 2000, 1), r.oracle.empty() ? "" : "FOUND " + r.oracle + ": " + r.detail + " tape " + format_tape(r.tape));
    failures += !r.oracle.empty();
  }
  return failures != 0;
}
