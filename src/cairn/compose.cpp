// The only file that knows every service.
#include "cairn/compose.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>

#include "cairn/data_directory.h"
#include "cairn/services.h"
#include "cairn/session.h"
#include "cairn/terminal.h"
#include "cairn/verbs.h"
#include "crypto/blake3.h"
#include "io/process.h"
#include "serve/host.h"
#include "services/storage/service.h"
#include "store/memory_kv.h"
#include "store/rocks_kv.h"

extern char** environ;

namespace cairn::cli {
namespace {

constexpr int default_port_base = 7400, storage_offset = 10;
constexpr ServiceEntry all_services[] = {
    {"storage", &storage::declaration, [](config::Schema& schema) { (void)storage::declare_keys(schema); }},
};

class Composition {
 public:
  Composition(const Invocation& invocation, bool up)
      : invocation_(invocation),
        terminal_(invocation),
        up_(up),
        amnesia_(invocation.has("amnesia")),
        data_(data_directory(invocation)) {}

  int serve_storage() {
    storage::Defaults where;
    where.alone = !up_;
    if (up_) {
      where.bind = fmt::format("127.0.0.1:{}", port_base_ + storage_offset);
      where.uds_path = socket_path();
    }
    storage::Keys keys = storage::declare_keys(storage_schema_, where);
    serve::HostedService storage;
    storage.prefix = up_ ? "storage" : "";
    storage.schema = &storage_schema_;
    storage.keys = keys.server;
    storage.workers = storage::workers_per_shard;
    storage.make =
        [this, keys](
            const config::Snapshot& snapshot) -> std::expected<std::unique_ptr<serve::Service>, std::string> {
      storage::Options options = storage::read_options(snapshot, keys, data_ + "/storage");
      store::KvMaker& kv = options.amnesia ? static_cast<store::KvMaker&>(memory_kv_) : rocks_kv_;
      return storage::make_service(std::move(options), kv, keys);
    };
    std::vector<serve::HostedService> hosted;
    hosted.push_back(std::move(storage));
    return serve::run_host(std::move(hosted), host_options({"storage"}));
  }

  bool take_port_base() {
    const auto given = invocation_.find("port-base");
    if (!given) return true;
    const auto [end, problem] = std::from_chars(given->data(), given->data() + given->size(), port_base_);
    return problem == std::errc() && end == given->data() + given->size() && port_base_ > 0 &&
           port_base_ <= 65535 - 40;
  }

 private:
  // A socket's path has little room; without it clients use the port.
  std::string socket_path() const {
    if (amnesia_) return "";
    std::error_code problem;
    std::string path = std::filesystem::absolute(data_, problem).string() + "/cairn.sock";
    return problem || path.size() > 100 ? "" : path;
  }

  std::expected<config::Sources, std::string> sources() const {
    config::Sources sources;
    if (const auto file = invocation_.find("config")) {
      auto text = io::read_small_file(std::string(*file), 256 << 10);
      if (!text) return std::unexpected(fmt::format("{}: {}", *file, text.error().context));
      sources.file = config::File{std::string(*file), std::move(*text)};
    }
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view entry = *each;
      const std::size_t equals = entry.find('=');
      if (equals != std::string_view::npos)
        sources.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    }
    sources.other_variables = {"CAIRN_URL", "CAIRN_CAP"};
    const std::string table = up_ ? "storage." : "";
    if (const auto bind = invocation_.find("bind"))
      sources.settings.push_back({table + "server.bind", std::string(*bind), "--bind"});
    if (amnesia_) sources.settings.push_back({table + "amnesia.enabled", "true", "--amnesia"});
    for (const std::string& text : invocation_.all("set")) {
      auto setting = config::parse_setting(text);
      if (!setting) return std::unexpected(fmt::format("--set {}: must be KEY=VALUE", text));
      sources.settings.push_back(std::move(*setting));
    }
    return sources;
  }

  serve::HostOptions host_options(std::vector<std::string> services) {
    if (up_) process_keys_ = config::declare_process_keys(process_schema_);
    serve::HostOptions options;
    options.sources = [this] { return sources(); };
    options.build = {CAIRN_VERSION, CAIRN_GIT, "release"};
    if (up_) {
      options.process_schema = &process_schema_;
      options.process_keys = process_keys_;
    }
    options.root_keys = [this, services](bool amnesia) -> std::expected<serve::RootKeys*, std::string> {
      amnesia_ = amnesia;
      auto prepared = amnesia_ ? prepare_amnesia() : prepare_data_directory(data_, services);
      if (!prepared) return std::unexpected(prepared.error());
      prepared_ = std::move(*prepared);
      return prepared_.keys.get();
    };
    options.ready = [this](std::span<const serve::Served> served) { tell(served); };
    options.complain = [this](const std::string& line) { terminal_.complain("failed", line, {}, {}); };
    return options;
  }

  void tell(std::span<const serve::Served> served) {
    for (const serve::Served& one : served)
      terminal_.line(terminal_.json() ? fmt::format("{{\"service\":{},\"url\":{}}}", json_string(one.service),
                                                    json_string("http://" + one.address))
                                      : fmt::format("{:<10} http://{}", one.service, one.address));
    if (amnesia_) {
      terminal_.line(terminal_.json() ? fmt::format("{{\"admin\":{}}}", json_string(prepared_.admin))
                                      : "CAIRN_CAP=" + prepared_.admin);
      std::fflush(stdout);  // whoever waits for the token reads it from a pipe
      return;
    }
    std::fflush(stdout);
    terminal_.say(fmt::format("{} {}", prepared_.made ? "made" : "data", data_));
    if (up_) terminal_.say("next: cairn put README.md");
  }

  const Invocation& invocation_;
  Terminal terminal_;
  bool up_;
  bool amnesia_;
  std::string data_;
  int port_base_ = default_port_base;
  config::Schema storage_schema_, process_schema_;
  config::ProcessKeys process_keys_;
  store::RocksKvMaker rocks_kv_;
  store::MemoryKvMaker memory_kv_;
  Prepared prepared_;
};

}  // namespace

std::span<const ServiceEntry> services() noexcept { return all_services; }

int serve_up(const Invocation& invocation) {
  crypto::warm_up();
  Composition composition(invocation, true);
  if (!composition.take_port_base())
    return complain_usage(invocation, "--port-base must be a port below 65496");
  return composition.serve_storage();
}

int serve_alone(const Invocation& invocation, std::string_view) {
  crypto::warm_up();
  return Composition(invocation, false).serve_storage();
}

}  // namespace cairn::cli
