// cairn-demo serve --bind H:P [--config FILE] [--set k=v]…
// cairn-demo pair [--config FILE] [--set above.k=v]…
// cairn-demo topology [--json|--mermaid]
// cairn-demo config show|check [--config FILE] [--set k=v]…
// cairn-demo docs DIR
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "config/load.h"
#include "config/print.h"
#include "config/problem.h"
#include "demo/allocations.h"
#include "demo/declarations.h"
#include "demo/service.h"
#include "serve/host.h"

extern char** environ;

using namespace cairn;

namespace {

struct Arguments {
  std::string verb, word;
  std::optional<std::string> file;
  std::vector<config::Setting> settings;
  bool json = false, mermaid = false, wrong = false;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  auto value = [&](int& i) -> std::string { return i + 1 < argc ? argv[++i] : (a.wrong = true, ""); };
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--bind") {
      a.settings.push_back({"server.bind", value(i), "--bind"});
    } else if (arg == "--set") {
      auto setting = config::parse_setting(value(i));
      if (setting)
        a.settings.push_back(*setting);
      else
        a.wrong = true;
    } else if (arg == "--config") {
      a.file = value(i);
    } else if (arg == "--json") {
      a.json = true;
    } else if (arg == "--mermaid") {
      a.mermaid = true;
    } else if (arg.starts_with("-")) {
      a.wrong = true;
    } else if (a.verb.empty()) {
      a.verb = arg;
    } else {
      a.word = arg;
    }
  }
  return a;
}

std::expected<config::Sources, std::string> sources_of(const Arguments& a, serve::Reading reading) {
  config::Sources sources;
  if (a.file) {
    auto read = serve::read_config_file(*a.file, reading);
    if (!read) return std::unexpected(read.error());
    sources.file = std::move(*read);
  }
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::size_t equals = entry.find('=');
    sources.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  sources.other_variables = {"CAIRN_COUNT_ALLOCS"};
  sources.settings = a.settings;
  return sources;
}

int write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    fmt::print(stderr, "cannot write {}\n", path);
    return 1;
  }
  std::fwrite(text.data(), 1, text.size(), file);
  return std::fclose(file) == 0 ? 0 : 1;
}

// The demo counts its allocations for the benchmark that asks for none.
class CountedService : public serve::Service {
 public:
  explicit CountedService(std::unique_ptr<serve::Service> inner) : inner_(std::move(inner)) {}
  const ServiceDeclaration& declaration() const override { return inner_->declaration(); }
  std::span<const serve::RouteSpec> routes() const override { return inner_->routes(); }
  std::vector<serve::GateDeclaration> gates() const override { return inner_->gates(); }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return inner_->make_shard(context);
  }
  void declare_metrics(observe::Registry& registry) override {
    registry.observed_counter("process_allocations_total", "Blocks of memory asked for.",
                              [] { return static_cast<double>(demo::allocation_count()); });
  }

 private:
  std::unique_ptr<serve::Service> inner_;
};

// Whoever does not read it misses it.
void say(int descriptor, const std::string& text) { (void)!write(descriptor, text.data(), text.size()); }

serve::HostOptions host_options(const Arguments& a) {
  serve::HostOptions options;
  options.sources = [&a](serve::Reading reading) { return sources_of(a, reading); };
  options.build = {CAIRN_VERSION, CAIRN_GIT, "demo"};
  options.ready = [](std::span<const serve::Served> served) {
    for (const serve::Served& each : served)
      say(1, fmt::format("cairn-demo serves http://{}/\n", each.address));
  };
  options.complain = [](const std::string& line) { say(2, line + "\n"); };
  return options;
}

serve::HostedService hosted(std::string prefix, const config::Schema& schema, const demo::Keys& keys) {
  return {.prefix = std::move(prefix),
          .schema = &schema,
          .keys = keys.server,
          .make = [keys](const config::Snapshot& snapshot)
              -> std::expected<std::unique_ptr<serve::Service>, std::string> {
            return std::make_unique<CountedService>(demo::make_service(snapshot.get(keys.files)));
          },
          .workers = demo::workers_per_shard,
          .open_access = true};
}

int serve_verb(const Arguments& a) {
  config::Schema schema;
  const demo::Keys keys = demo::declare_keys(schema);
  serve::HostOptions options = host_options(a);
  config::Sources first;  // a pipe cannot be read twice
  options.sources = [&](serve::Reading reading) {
    auto sources = sources_of(a, reading);
    if (sources && reading == serve::Reading::first) first = *sources;
    return sources;
  };
  std::unique_ptr<serve::RootKeys> root_keys;
  options.root_keys = [&](const std::vector<bool>&) -> std::expected<serve::RootKeys*, std::string> {
    const auto loaded = config::load(schema, first);
    if (!loaded) return std::unexpected(config::format_problems(loaded.error()));
    const std::string& path = (*loaded)->get(keys.root_keys);
    if (path.empty()) return nullptr;
    auto opened = serve::RootKeys::open(path);
    if (!opened) return std::unexpected(fmt::format("{}: {}", path, opened.error().context));
    root_keys = std::move(*opened);
    return root_keys.get();
  };
  return serve::run_host({hosted({}, schema, keys)}, options);
}

// Two services in one process; `above` counts as one that needs `below`.
int pair_verb(const Arguments& a) {
  config::Schema process, below, above;
  serve::HostOptions options = host_options(a);
  options.process_schema = &process;
  options.process_keys = config::declare_process_keys(process, serve::pool_sizes());
  const demo::Keys below_keys = demo::declare_keys(below, false);
  const demo::Keys above_keys = demo::declare_keys(above, false);
  return serve::run_host({hosted("below", below, below_keys), hosted("above", above, above_keys)}, options);
}

int config_verb(const Arguments& a) {
  config::Schema schema;
  demo::declare_keys(schema);
  auto sources = sources_of(a, serve::Reading::first);
  if (!sources) {
    fmt::print(stderr, "{}\n", sources.error());
    return serve::exit_bad_config;
  }
  auto snapshot = config::load(schema, *sources);
  if (!snapshot) {
    fmt::print(stderr, "{}\n", config::format_problems(snapshot.error()));
    return serve::exit_bad_config;
  }
  if (a.word == "show")
    fmt::print("{}", a.json ? config::show_json(**snapshot) : config::show_text(**snapshot));
  return 0;
}

int docs_verb(const Arguments& a) {
  config::Schema schema;
  demo::declare_keys(schema);
  std::filesystem::create_directories(a.word + "/config");
  std::filesystem::create_directories(a.word + "/concurrency");
  return write_file(a.word + "/config/demo.md", config::docs_markdown(schema, "demo")) +
         write_file(a.word + "/concurrency/demo.md", format_concurrency_page(demo::declaration));
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  if (!a.wrong && a.verb == "serve") return serve_verb(a);
  if (!a.wrong && a.verb == "pair") return pair_verb(a);
  if (!a.wrong && a.verb == "topology") {
    fmt::print("{}", a.json      ? format_topology_json(demo::declaration)
                     : a.mermaid ? format_topology_mermaid(demo::declaration)
                                 : format_topology_text(demo::declaration));
    return 0;
  }
  if (!a.wrong && a.verb == "config" && (a.word == "show" || a.word == "check")) return config_verb(a);
  if (!a.wrong && a.verb == "docs" && !a.word.empty()) return docs_verb(a);
  fmt::print(stderr,
             "usage: cairn-demo serve [--bind H:P] [--config FILE] [--set k=v]…\n"
             "       cairn-demo pair [--config FILE] [--set above.k=v]…\n"
             "       cairn-demo topology [--json|--mermaid]\n"
             "       cairn-demo config show|check [--config FILE] [--set k=v]… [--json]\n"
             "       cairn-demo docs DIR\n");
  return 64;
}
