// The only file that knows every service.
#include "cairn/compose.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "cairn/capability.h"
#include "cairn/data_directory.h"
#include "cairn/genesis.h"
#include "cairn/key_file.h"
#include "cairn/register_node.h"
#include "cairn/services.h"
#include "cairn/session.h"
#include "cairn/terminal.h"
#include "cairn/tls_file.h"
#include "cairn/verbs.h"
#include "crypto/blake3.h"
#include "io/interfaces.h"
#include "io/open_dht.h"
#include "io/process.h"
#include "io/small_file.h"
#include "serve/host.h"
#include "serve/sizes.h"
#include "services/gateway/service.h"
#include "services/index/service.h"
#include "services/registry/service.h"
#include "services/storage/service.h"
#include "store/memory_kv.h"
#include "store/rocks_kv.h"

extern char** environ;

namespace cairn::cli {
namespace {

constexpr int default_port_base = 7400, gateway_offset = 0, storage_offset = 10, index_offset = 20,
              registry_offset = 30;
constexpr ServiceEntry all_services[] = {
    {"storage", &storage::declaration, [](config::Schema& schema) { (void)storage::declare_keys(schema); },
     &storage::routes},
    {"index", &index::declaration, [](config::Schema& schema) { (void)index::declare_keys(schema); },
     &index::routes},
    {"registry", &registry::declaration, [](config::Schema& schema) { (void)registry::declare_keys(schema); },
     &registry::routes},
    {"gateway", &gateway::declaration, [](config::Schema& schema) { (void)gateway::declare_keys(schema); },
     &gateway::routes},
};
// The signer of a registry that was made without naming one.
constexpr std::string_view operator_name = "operator";

class Composition {
 public:
  // All services, or one.
  Composition(const Invocation& invocation, std::vector<std::string> services)
      : invocation_(invocation),
        terminal_(invocation, Patience::none),
        names_(std::move(services)),
        up_(names_.size() > 1),
        amnesia_(invocation.has("amnesia")),
        data_(data_directory(invocation)) {}

  int serve() {
    if (invocation_.has("tls"))
      if (auto ready = prepare_tls(); !ready) return complain_failure(invocation_, ready.error());
    std::vector<serve::HostedService> hosted;
    for (const std::string& name : names_) hosted.push_back(host(name));
    return serve::run_host(std::move(hosted), host_options());
  }

  int configure(const UpConfiguration& use) {
    std::vector<serve::HostedService> hosted;
    for (const std::string& name : names_) hosted.push_back(host(name));
    (void)config::declare_process_keys(process_schema_, serve::pool_sizes());
    auto given = sources(serve::Reading::first);
    if (!given) return use.unreadable(given.error());
    std::vector<config::Section> sections{{{}, &process_schema_}};
    for (const serve::HostedService& each : hosted) sections.push_back({each.prefix, each.schema});
    auto snapshots = config::load(sections, *given);
    if (!snapshots) return use.refused(snapshots.error());
    std::vector<UpConfiguration::Part> parts;
    for (std::size_t i = 0; i < sections.size(); ++i) parts.push_back({sections[i].prefix, (*snapshots)[i]});
    return use.accepted(parts);
  }
  void set_file(std::string file) { file_ = std::move(file); }

  bool take_port_base() {
    const auto given = invocation_.find("port-base");
    if (!given) return true;
    const auto [end, problem] = std::from_chars(given->data(), given->data() + given->size(), port_base_);
    return problem == std::errc() && end == given->data() + given->size() && port_base_ > 0 &&
           port_base_ <= 65535 - 40;
  }

 private:
  serve::HostedService host(std::string_view name) {
    if (name == "storage") return host_storage();
    if (name == "index") return host_index();
    return name == "registry" ? host_registry() : host_gateway();
  }

  serve::HostedService host_gateway() {
    gateway::Defaults where;
    where.alone = !up_;
    if (up_) {
      where.bind = fmt::format("127.0.0.1:{}", port_base_ + gateway_offset);
      where.uds_path = socket_path("cairn.sock");
      where.storage = where.index = where.registry = "";
    }
    const gateway::Keys keys = gateway::declare_keys(gateway_schema_, where);
    serve::HostedService hosted;
    hosted.prefix = up_ ? "gateway" : "";
    hosted.schema = &gateway_schema_;
    hosted.keys = keys.server;
    hosted.workers = gateway::workers_per_shard;
    hosted.peers = {{"storage", keys.storage}, {"index", keys.index}, {"registry", keys.registry}};
    hosted.root_keys_of_others = keys.root_keys;
    hosted.make =
        [this, keys](
            const config::Snapshot& snapshot) -> std::expected<std::unique_ptr<serve::Service>, std::string> {
      return gateway::make_service(
          keys, gateway::read_options(snapshot, keys, data_ + "/gateway", io::core_count()));
    };
    return hosted;
  }

  serve::HostedService host_storage() {
    storage::Defaults where;
    where.alone = !up_;
    if (up_) {
      where.bind = fmt::format("127.0.0.1:{}", port_base_ + storage_offset);
      where.uds_path = socket_path("storage.sock");
    }
    storage::Keys keys = storage::declare_keys(storage_schema_, where);
    serve::HostedService hosted;
    hosted.prefix = up_ ? "storage" : "";
    hosted.schema = &storage_schema_;
    hosted.keys = keys.server;
    hosted.workers = storage::workers_per_shard;
    hosted.peers = {{"index", keys.index}};
    hosted.make =
        [this, keys](
            const config::Snapshot& snapshot) -> std::expected<std::unique_ptr<serve::Service>, std::string> {
      storage::Options options = storage::read_options(snapshot, keys, data_ + "/storage");
      if (!options.amnesia) {
        if (auto there = keep_stores("storage", options.data_dirs); !there)
          return std::unexpected(there.error());
      }
      const bool has_index = up_ || !snapshot.get(keys.index).empty();
      if (options.announce.enabled && has_index) {
        auto key = find_node_key(options.amnesia);
        if (!key) return std::unexpected(key.error());
        storage::AnnouncerOptions& announcer = options.announce.announcer;
        announcer.key = std::move(*key);
        announcer.bound = storage_bound_;
        announcer.machine_addresses = io::interface_addresses;
      }
      store::KvMaker& kv = options.amnesia ? static_cast<store::KvMaker&>(memory_kv_) : rocks_kv_;
      return storage::make_service(std::move(options), kv, keys);
    };
    return hosted;
  }

  serve::HostedService host_index() {
    index::Defaults where;
    where.alone = !up_;
    if (up_) {
      where.bind = fmt::format("127.0.0.1:{}", port_base_ + index_offset);
      where.dht_port = port_base_ + index_offset;
    }
    where.uds_path = socket_path("index.sock");
    index::Keys keys = index::declare_keys(index_schema_, where);
    serve::HostedService hosted;
    hosted.prefix = up_ ? "index" : "";
    hosted.schema = &index_schema_;
    hosted.keys = keys.server;
    hosted.workers = index::workers_per_shard;
    hosted.peers = {{"registry", keys.registry}};
    hosted.make =
        [this, keys](
            const config::Snapshot& snapshot) -> std::expected<std::unique_ptr<serve::Service>, std::string> {
      index::Options options = index::read_options(snapshot, keys, data_ + "/index");
      if (!options.amnesia)
        if (auto there = keep_stores("index", {options.ledger.directory}); !there)
          return std::unexpected(there.error());
      auto key = find_node_key(options.amnesia);
      if (!key) return std::unexpected(key.error());
      options.ledger.key = std::move(*key);
      store::KvMaker& kv = options.amnesia ? static_cast<store::KvMaker&>(memory_kv_) : index_kv_;
      return index::make_service(std::move(options), kv, dht_, keys);
    };
    return hosted;
  }

  // The key that this node signs with, the same for all services: the data directory's, which the first start
  // makes, or one in memory for a process that leaves nothing behind.
  std::expected<std::shared_ptr<const crypto::Ed25519Key>, std::string> find_node_key(bool amnesia) {
    if (amnesia) {
      if (node_key_ == nullptr) node_key_ = std::make_shared<const crypto::Ed25519Key>(new_signing_key());
      return node_key_;
    }
    auto kept = load_or_make_key(data_, node_key_name);
    if (!kept) return std::unexpected(kept.error().message);
    return std::make_shared<const crypto::Ed25519Key>(std::move(kept->key));
  }

  // The stores of a service that are on a disk: each is noted once it is there.
  std::expected<void, std::string> keep_stores(std::string_view service, std::vector<std::string> stores) {
    if (auto there = check_stores(data_, service, stores); !there) return there;
    stores_.emplace_back(service, std::move(stores));
    return {};
  }

  serve::HostedService host_registry() {
    registry::Defaults where;
    where.alone = !up_;
    if (up_) where.bind = fmt::format("127.0.0.1:{}", port_base_ + registry_offset);
    where.uds_path = socket_path("registry.sock");
    registry::Keys keys = registry::declare_keys(registry_schema_, where);
    serve::HostedService hosted;
    hosted.prefix = up_ ? "registry" : "";
    hosted.schema = &registry_schema_;
    hosted.keys = keys.server;
    hosted.workers = registry::workers_per_shard;
    hosted.ready_after = true;  // the first version after genesis is this process's own
    hosted.make =
        [this, keys](
            const config::Snapshot& snapshot) -> std::expected<std::unique_ptr<serve::Service>, std::string> {
      registry::Options options = registry::read_options(snapshot, keys, data_ + "/registry");
      auto genesis = find_genesis(snapshot.get(keys.server.amnesia), options.ram);
      if (!genesis) return std::unexpected(genesis.error());
      if (auto pinned = check_trust_roots(snapshot, keys, genesis->roots); !pinned)
        return std::unexpected(pinned.error());
      options.registry.genesis = std::move(genesis->genesis);
      options.registry.log_key = std::make_shared<const crypto::Ed25519Key>(std::move(genesis->log_key));
      return registry::make_service(std::move(options), keys);
    };
    return hosted;
  }

  // Finds the registry's genesis: the data directory's, which the first `up` makes, or one in memory for a
  // process that leaves nothing behind. With amnesia the registry has keys of its own: with the directory's
  // keys it would sign a second history of the directory's registry.
  std::expected<LoadedGenesis, std::string> find_genesis(bool amnesia, bool ram) {
    if (amnesia || (ram && !has_registry(data_))) {
      GenesisInMemory made = make_registry_in_memory(std::string(operator_name));
      operator_key_ = std::move(made.signer_key);
      return std::move(made.loaded);
    }
    if (up_ && !has_registry(data_))
      if (auto made = make_registry(data_, 1, {std::string(operator_name)}); !made)
        return std::unexpected(made.error());
    return load_registry(data_);
  }

  static std::expected<void, std::string> check_trust_roots(const config::Snapshot& snapshot,
                                                            const registry::Keys& keys,
                                                            const format::TrustRoots& roots) {
    const std::string& path = snapshot.get(keys.trust_roots_path);
    const std::string& hash = snapshot.get(keys.trust_roots_hash);
    if (path.empty() && hash.empty()) return {};
    const std::string text =
        path.empty() ? format::format_trust_roots(roots) : io::read_small_file(path, 64 << 10).value_or("");
    std::string why;
    const auto pinned = format::parse_trust_roots(text, why);
    if (!pinned) return std::unexpected(fmt::format("{}: no trust roots: {}", path, why));
    if (!hash.empty() && parse_address(hash) != crypto::hash_object(as_bytes(text)))
      return std::unexpected(fmt::format("bootstrap.trust_roots_hash: the trust roots are {}, not {}",
                                         format_address(crypto::hash_object(as_bytes(text))), hash));
    if (*pinned != roots)
      return std::unexpected(fmt::format("{}: these trust roots are another registry's", path));
    return {};
  }

  // A socket's path has little room, and its directory must be private. Else clients use the port.
  std::string socket_path(std::string_view name) const {
    if (amnesia_) return "";
    std::error_code problem;
    const auto is = std::filesystem::status(data_, problem);
    constexpr auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
    if (std::filesystem::exists(is) && (is.permissions() & others) != std::filesystem::perms::none) return "";
    std::string path = std::filesystem::absolute(data_, problem).string() + "/" + std::string(name);
    return problem || path.size() > 100 ? "" : path;
  }

  std::expected<config::Sources, std::string> sources(serve::Reading reading) const {
    config::Sources sources;
    std::optional<std::string> file = file_;
    if (const auto given = invocation_.find("config"); given && !file) file = *given;
    if (file) {
      auto read = serve::read_config_file(*file, reading);
      if (!read) return std::unexpected(read.error());
      sources.file = std::move(*read);
    }
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view entry = *each;
      const std::size_t equals = entry.find('=');
      if (equals != std::string_view::npos)
        sources.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    }
    sources.other_variables = {"CAIRN_URL", "CAIRN_INDEX", "CAIRN_CAP", "CAIRN_CA", "CAIRN_CHAOS"};
    if (const auto bind = invocation_.find("bind"))
      sources.settings.push_back({"server.bind", std::string(*bind), "--bind"});
    for (const std::string& name : names_)
      if (amnesia_)
        sources.settings.push_back({(up_ ? name + "." : "") + "amnesia.enabled", "true", "--amnesia"});
    if (tls_files_)
      for (const std::string_view name : front_services())
        for (const auto& [key, value] :
             {std::pair("tls.enabled", std::string("true")), std::pair("tls.cert", tls_files_->certificate),
              std::pair("tls.key", tls_files_->key)})
          sources.settings.push_back({fmt::format("{}.{}", name, key), value, "--tls"});
    for (const std::string& text : invocation_.all("set")) {
      auto setting = config::parse_setting(text);
      if (!setting) return std::unexpected(fmt::format("--set {}: must be KEY=VALUE", text));
      sources.settings.push_back(std::move(*setting));
    }
    return sources;
  }

  bool is_gateway_alone() const noexcept { return names_.front() == "gateway"; }

  // The services of `up` that speak TLS with --tls.
  static std::vector<std::string_view> front_services() { return {"gateway"}; }

  client::Outcome<> prepare_tls() {
    if (amnesia_)
      return fail(client::Failure(
          ErrorCode::invalid,
          "--tls keeps a certificate on disk; with --amnesia name one: --set gateway.tls.cert=…"));
    TRY(tls_files_, find_local_tls_files(data_));
    return {};
  }

  serve::HostOptions host_options() {
    if (up_) process_keys_ = config::declare_process_keys(process_schema_, serve::pool_sizes());
    serve::HostOptions options;
    options.sources = [this](serve::Reading reading) { return sources(reading); };
    std::error_code unknown;
    options.first_start = !std::filesystem::exists(data_, unknown);
    options.build = {CAIRN_VERSION, CAIRN_GIT, "release"};
    if (up_) {
      options.process_schema = &process_schema_;
      options.process_keys = process_keys_;
    }
    options.root_keys =
        [this](const std::vector<bool>& amnesic) -> std::expected<serve::RootKeys*, std::string> {
      std::vector<std::string> writers;
      for (std::size_t i = 0; i < names_.size(); ++i)
        if (!amnesic[i]) writers.push_back(names_[i]);
      // If one service may leave nothing on disk, the keys, which all services share, are not on disk either.
      amnesia_ = writers.size() < names_.size();
      auto prepared = is_gateway_alone() ? prepare_without_keys(data_, writers)
                      : amnesia_         ? prepare_amnesia(data_, writers)
                                         : prepare_data_directory(data_, writers);
      if (!prepared) return std::unexpected(prepared.error());
      prepared_ = std::move(*prepared);
      return prepared_.keys.get();
    };
    options.revoked = [this](const crypto::KeyRing& left) -> Result<> {
      if (amnesia_) return {};
      return renew_admin_capability(data_, left);
    };
    options.listening = [this](std::span<const serve::Served> served) {
      write_addresses(served);
      for (const serve::Served& one : served)
        if (one.service == "storage") *storage_bound_ = {one.address, one.tls};
    };
    if (const char* chaos = std::getenv("CAIRN_CHAOS")) options.chaos = chaos;
    options.ready = [this](std::span<const serve::Served> served) { tell(served); };
    if (up_)
      options.afterwards = [this](Call call, io::Machine* machine, std::vector<serve::Served> served) {
        return register_services(call, machine, std::move(served));
      };
    options.complain = [this](std::string line) {
      while (line.ends_with('\n')) line.pop_back();  // of a list of problems
      terminal_.complain("failed", line, {}, hint_of(line));
    };
    return options;
  }

  // A hint for a start that failed, where another address or directory would help.
  std::string_view hint_of(std::string_view line) const noexcept {
    if (line.starts_with("cannot listen on "))
      return up_ ? "other ports: --port-base N" : "another address: --bind HOST:PORT";
    if (line.find(" is in use by ") == line.npos) return {};
    return up_ ? "another directory: --data DIR, with ports of its own: --port-base N"
               : "another directory: --data DIR";
  }

  // Tells the verbs of this machine, through the lock files, where this process listens: they send the data
  // directory's own capability nowhere else. Without these addresses they still find the socket beside the
  // lock.
  // A gateway alone is not told: what it passes on may go to other machines.
  void write_addresses(std::span<const serve::Served> served) {
    if (is_gateway_alone()) return;
    for (ServiceLock& held : prepared_.locks) {
      std::vector<std::string> addresses;
      for (const serve::Served& one : served) {
        if (one.service != held.service) continue;
        // In the order in which the verbs try them.
        if (!one.socket.empty()) addresses.push_back("unix:" + one.socket);
        if (!one.address.empty()) addresses.push_back((one.tls ? "https://" : "") + one.address);
      }
      if (auto told = held.lock.announce(addresses); !told)
        terminal_.warn(fmt::format("{}: {}", lock_path(data_, held.service), told.error().context));
    }
  }

  static std::string url_of(const serve::Served& one) {
    return (one.tls ? "https://" : "http://") + one.address;
  }

  void tell(std::span<const serve::Served> served) {
    for (const auto& [service, stores] : stores_)
      if (auto noted = note_stores(data_, service, stores); !noted) terminal_.warn(noted.error());
    for (const serve::Served& one : served)
      announce(terminal_.json() ? fmt::format("{{\"service\":{},\"url\":{}}}\n", json_string(one.service),
                                              json_string(url_of(one)))
                                : fmt::format("{:<10} {}\n", one.service, url_of(one)));
    if (is_gateway_alone()) return;
    if (amnesia_)
      return announce(terminal_.json() ? fmt::format("{{\"admin\":{}}}\n", json_string(prepared_.admin))
                                       : fmt::format("CAIRN_CAP={}\n", prepared_.admin));
    terminal_.say(fmt::format("{} {}", prepared_.made ? "made" : "data", data_));
    if (const auto door = std::ranges::find_if(served, &serve::Served::tls);
        tls_files_ && door != served.end())
      terminal_.say(
          fmt::format("trust: curl --cacert {} {}/healthz; browsers: import that file as an authority",
                      tls_files_->authority, url_of(*door)));
    if (up_) terminal_.say("next: cairn put README.md");
  }

  // Registers storage as a node of the registry. It commits only if the descriptor has changed.
  Task<> register_services(Call call, io::Machine* machine, std::vector<serve::Served> served) {
    NodeRegistration wanted;
    for (const serve::Served& one : served) {
      if (one.service == "storage") wanted.addr = one.address;
      if (one.service != "registry") continue;
      wanted.registry = one.socket.empty() ? url_of(one) : "unix:" + one.socket;
      if (!one.tls) continue;
      if (auto trust = load_trust(invocation_, data_, true)) wanted.tls = std::move(*trust);
    }
    if (!operator_key_) {  // a registry that is on disk
      auto key = load_key(data_, operator_name);
      if (key) operator_key_ = std::move(*key);
    }
    wanted.roles = {"storage"};
    wanted.signer = operator_name;
    wanted.key = operator_key_ ? &*operator_key_ : nullptr;
    wanted.token = amnesia_ ? prepared_.admin : read_token_file(admin_capability_path(data_));
    auto outcome = co_await register_node(call, machine, std::move(wanted));
    if (!outcome && !call.stopped())
      terminal_.say(fmt::format("storage is not registered: {}", outcome.error().message));
  }

  const Invocation& invocation_;
  Terminal terminal_;
  std::optional<std::string> file_;  // instead of --config
  std::vector<std::string> names_;
  bool up_;
  bool amnesia_;
  std::vector<std::pair<std::string_view, std::vector<std::string>>> stores_;  // by service, those on a disk
  std::string data_;
  int port_base_ = default_port_base;
  config::Schema storage_schema_, index_schema_, registry_schema_, gateway_schema_, process_schema_;
  config::ProcessKeys process_keys_;
  std::optional<TlsFiles> tls_files_;  // with --tls
  store::RocksKvMaker rocks_kv_, index_kv_;
  store::MemoryKvMaker memory_kv_;
  io::OpenDhtMaker dht_;
  Prepared prepared_;
  std::optional<crypto::Ed25519Key> operator_key_;
  std::shared_ptr<const crypto::Ed25519Key> node_key_;  // in memory; none: the data directory's
  // Where storage listens. Written before the shards run, then on the first one.
  std::shared_ptr<storage::Bound> storage_bound_ = std::make_shared<storage::Bound>();
};

}  // namespace

std::span<const ServiceEntry> services() noexcept { return all_services; }

int with_up_configuration(const Invocation& invocation, std::optional<std::string> file,
                          const UpConfiguration& use) {
  Composition composition(invocation, {"registry", "index", "storage", "gateway"});
  if (file) composition.set_file(std::move(*file));
  return composition.configure(use);
}

int serve_up(const Invocation& invocation) {
  crypto::warm_up();
  Composition composition(invocation, {"registry", "index", "storage", "gateway"});
  if (!composition.take_port_base())
    return complain_usage(invocation, "--port-base must be a port below 65496");
  return composition.serve();
}

int serve_alone(const Invocation& invocation, std::string_view service) {
  crypto::warm_up();
  return Composition(invocation, {std::string(service)}).serve();
}

}  // namespace cairn::cli
