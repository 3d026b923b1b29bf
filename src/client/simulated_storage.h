// For tests: the storage service's protocol, in memory, on a node of a simulated world, and a client of it on
// another node. The service can be told to refuse, to break off and to lie.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/storage_client.h"
#include "crypto/object_hasher.h"
#include "crypto/outboard.h"
#include "http/h1/server.h"
#include "http/query.h"
#include "http/range.h"
#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::client {

class Shelf final : public http::Gate, public http::Answerer {
 public:
  explicit Shelf(Slab& slab) : slab_(slab) {}

  struct Upload {
    std::optional<std::uint64_t> size;
    std::map<std::uint64_t, std::string> parts;
  };
  std::map<std::string, std::string> objects;  // by the text of the address
  std::map<std::string, Upload> uploads;
  std::vector<std::string> seen;  // `METHOD target` of every request
  // --- faults
  int refusals = 0;                // that many requests are answered 429, Retry-After 2
  int losses = 0;                  // that many PATCHes end the connection instead
  std::optional<int> parts_fit;    // after that many more PATCHes the disk is full
  std::size_t cut_after = 0;       // the next body of an object breaks after so many bytes; 0: it does not
  std::optional<std::size_t> rot;  // this byte of every object is sent flipped
  bool proofs_lie = false;
  bool deaf = false;           // no body is ever read
  bool silent = false;         // no request is ever answered
  int gaps_told = 64;          // Upload-Missing names that many
  bool forget_commit = false;  // commits, then says that there is no such upload
  bool refuse_commit = false;  // the disk is full

  std::string add(std::string bytes) {
    const std::string name = format_address(crypto::hash_object(as_bytes(bytes)));
    objects[name] = std::move(bytes);
    return name;
  }

  Next begin(http::Exchange& exchange) override {
    seen.push_back(
        fmt::format("{} {}", http::name_of(exchange.request().method), exchange.request().target()));
    return Next::handle;
  }
  Task<> handle(Call call, http::Exchange& exchange) override {
    call = call.by(exchange.started + Duration::seconds(3600));
    if (deaf) {
      (void)co_await sleep_for(call, Duration::seconds(3600));
      exchange.response.abandoned = true;
      co_return;
    }
    std::string body;
    for (;;) {
      auto slice = co_await exchange.body.next(call);
      if (!slice || slice->empty()) break;
      body += as_text(slice->bytes());
    }
    if (silent) {
      (void)co_await sleep_for(call, Duration::seconds(3600));
      exchange.response.abandoned = true;
      co_return;
    }
    if (refusals > 0) {
      --refusals;
      exchange.response.add_number("Retry-After", 2);
      refuse_with(exchange, 429, "busy", 2);
      co_return;
    }
    answer(exchange, std::move(body));
  }
  void refuse(http::Exchange& exchange, Error error) override {
    refuse_with(exchange, std::max(400, status_of(error.code)), name_of(error.code));
  }
  void finished(http::Exchange&, bool) override {}
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override {}

 private:
  class Broken final : public io::BodySource {
   public:
    Broken(Slab& slab, std::string text) : slab_(slab), text_(std::move(text)) {}
    Task<Result<io::Piece>> next(Call) override {
      if (at_ == text_.size()) co_return fail(ErrorCode::io_failed, "told to break");
      Buffer block = slab_.take(Slab::large);
      const std::size_t count = std::min(block.room().size(), text_.size() - at_);
      std::memcpy(block.room().data(), text_.data() + at_, count);
      block.fill(count);
      at_ += count;
      co_return io::Piece(std::move(block));
    }

   private:
    Slab& slab_;
    std::string text_;
    std::size_t at_ = 0;
  };

  void refuse_with(http::Exchange& exchange, int status, std::string_view code, int retry_after = 0) {
    exchange.response.status = status;
    exchange.response.text =
        fmt::format(R"({{"error":{{"code":"{}","message":"because","corr_id":"corr-1234"{}}}}})", code,
                    retry_after != 0 ? fmt::format(",\"retry_after\":{}", retry_after) : "");
    exchange.response.answer_text("application/json");
  }
  void answer_json(http::Exchange& exchange, int status, std::string text) {
    exchange.response.status = status;
    exchange.response.text = std::move(text);
    exchange.response.answer_text("application/json");
  }

  void answer(http::Exchange& exchange, std::string body) {
    const std::string path(exchange.request().path());
    using http::Method;
    if (path == "/o") return list(exchange);
    if (path.starts_with("/o/")) return object(exchange, path.substr(3), std::move(body));
    if (path.starts_with("/uploads")) return upload(exchange, path.substr(8), std::move(body));
    if (path.starts_with("/pins/") || path.starts_with("/admin/")) {
      exchange.response.status = 204;
      return;
    }
    refuse_with(exchange, 404, "not_found");
  }

  void list(http::Exchange& exchange) {
    std::string room(exchange.request().query().size(), '\0');
    const auto query = http::parse_query(exchange.request().query(), room);
    const std::string prefix(query->find("prefix").value_or(""));
    const std::string after(query->find("after").value_or(""));
    const std::size_t limit = std::stoul(std::string(query->find("limit").value_or("1000")));
    std::string items, last;
    std::size_t count = 0;
    bool more = false;
    for (const auto& [name, bytes] : objects) {
      if (!name.starts_with(prefix) || name <= after) continue;
      if (count == limit) {
        more = true;
        break;
      }
      items += fmt::format(R"({}{{"address":"{}","size":{},"pinned":false}})", count == 0 ? "" : ",", name,
                           bytes.size());
      last = name;
      ++count;
    }
    answer_json(
        exchange, 200,
        fmt::format(R"({{"objects":[{}]{}}})", items, more ? fmt::format(R"(,"next":"{}")", last) : ""));
  }

  void object(http::Exchange& exchange, std::string name, std::string body) {
    using http::Method;
    const Method method = exchange.request().method;
    const bool proof = name.ends_with("/proof");
    if (proof) name.resize(name.size() - 6);
    if (method == Method::put) {
      if (format_address(crypto::hash_object(as_bytes(body))) != name)
        return refuse_with(exchange, 409, "conflict");
      const bool fresh = objects.emplace(name, std::move(body)).second;
      return answer_json(exchange, fresh ? 201 : 200, "{}");
    }
    const auto at = objects.find(name);
    if (at == objects.end()) return refuse_with(exchange, 404, "not_found");
    if (method == Method::del) {
      objects.erase(at);
      exchange.response.status = 204;
      return;
    }
    if (proof) return answer_proof(exchange, at->second);
    std::string bytes = at->second;
    if (rot && *rot < bytes.size()) bytes[*rot] = static_cast<char>(bytes[*rot] ^ 1);
    if (const auto range = exchange.request().fields.find(http::FieldName::range)) {
      const http::RangeSet set = http::parse_range(*range, bytes.size());
      if (set.kind == http::RangeSet::Kind::unsatisfiable)
        return refuse_with(exchange, 416, "range_not_satisfiable");
      exchange.response.status = 206;
      bytes = bytes.substr(set.at[0].first, set.at[0].size());
    }
    const std::size_t size = bytes.size();
    if (cut_after != 0 && method == Method::get && cut_after < size) {
      exchange.response.answer_sized("text/plain",
                                     std::make_unique<Broken>(slab_, bytes.substr(0, cut_after)), size);
      cut_after = 0;
      return;
    }
    exchange.response.text = std::move(bytes);
    exchange.response.answer_text("text/plain");
  }

  void answer_proof(http::Exchange& exchange, const std::string& bytes) {
    std::string room(exchange.request().query().size(), '\0');
    const auto query = http::parse_query(exchange.request().query(), room);
    const std::string range(query->find("range").value_or("0-0"));
    const std::uint64_t first = std::stoull(range);
    std::uint64_t last = std::stoull(range.substr(range.find('-') + 1));
    last = bytes.empty() ? 0 : std::min<std::uint64_t>(last, bytes.size() - 1);
    crypto::ObjectHasher hasher;
    hasher.update(as_bytes(bytes));
    const crypto::ObjectHash hash = hasher.finish();
    std::vector<crypto::Hash> parts;
    const std::span<const crypto::Hash> groups(hash.groups);
    const bool single = groups.size() <= crypto::groups_per_part;
    for (std::size_t i = 0; i < groups.size(); i += crypto::groups_per_part)
      parts.push_back(
          crypto::merge_all(groups.subspan(i, std::min(crypto::groups_per_part, groups.size() - i)), single));
    crypto::ProofBuilder builder(bytes.size(), first, last, parts);
    std::string& out = exchange.response.text;
    out.clear();
    std::array<std::byte, 4096> block;
    while (!builder.done()) {
      if (const auto part = builder.wants_part()) {
        const std::size_t from = static_cast<std::size_t>(*part) * crypto::groups_per_part;
        CHECK(builder.give_part(groups.subspan(from, std::min(crypto::groups_per_part, groups.size() - from)))
                  .has_value());
      }
      out += as_text({block.data(), builder.write(block)});
    }
    if (proofs_lie && !out.empty()) out.back() = static_cast<char>(out.back() ^ 1);
    exchange.response.answer_text("application/vnd.cairn.outboard");
  }

  void upload(http::Exchange& exchange, std::string rest, std::string body) {
    using http::Method;
    const Method method = exchange.request().method;
    if (rest.empty()) {
      const std::string id = fmt::format("up{}", ++made_);
      const std::size_t at = body.find("\"size\":");
      if (at != std::string::npos)
        uploads[id].size = std::stoull(body.substr(at + 7));
      else
        uploads[id];
      return answer_json(exchange, 201,
                         fmt::format(R"({{"id":"{}","expires_at":"2030-01-01T00:00:00Z"}})", id));
    }
    const bool commit = rest.ends_with("/commit");
    const std::string id = rest.substr(1, rest.size() - 1 - (commit ? 7 : 0));
    const auto at = uploads.find(id);
    if (at == uploads.end()) return refuse_with(exchange, 404, "not_found");
    if (method == Method::patch && losses > 0) {
      --losses;
      exchange.response.abandoned = true;
      return;
    }
    if (method == Method::patch && parts_fit && (*parts_fit)-- <= 0)
      return refuse_with(exchange, 507, "storage_full");
    if (method == Method::patch) {
      const auto offset =
          http::parse_content_length(exchange.request().fields.get(http::FieldName::upload_offset));
      if (!offset || *offset % body_max != 0 || body.size() > body_max)
        return refuse_with(exchange, 400, "malformed");
      at->second.parts[*offset] = std::move(body);
      exchange.response.status = 204;
    } else if (method == Method::head) {
      std::string missing;
      std::uint64_t contiguous = 0, expected = 0;
      bool whole = true;
      int gaps = 0;
      const auto hole = [&](std::uint64_t from, std::uint64_t to) {
        if (gaps++ < gaps_told) missing += fmt::format("{}{}-{}", missing.empty() ? "" : ",", from, to - 1);
        whole = false;
      };
      for (const auto& [offset, part] : at->second.parts) {
        if (offset > expected) hole(expected, offset);
        expected = offset + part.size();
        if (whole) contiguous = expected;
      }
      if (at->second.size && expected < *at->second.size) hole(expected, *at->second.size);
      exchange.response.add_number("Upload-Offset", contiguous);
      if (!missing.empty()) exchange.response.add_field("Upload-Missing", missing);
      exchange.response.status = 204;
    } else if (method == Method::del) {
      uploads.erase(at);
      exchange.response.status = 204;
    } else if (refuse_commit) {
      refuse_with(exchange, 507, "storage_full");
    } else {
      finish_upload(exchange, at->second, body);
      if (exchange.response.status == 201) uploads.erase(at);
      if (std::exchange(forget_commit, false)) refuse_with(exchange, 404, "not_found");
    }
  }

  void finish_upload(http::Exchange& exchange, const Upload& from, const std::string& body) {
    std::string bytes;
    for (const auto& [offset, part] : from.parts) {
      if (offset != bytes.size()) return refuse_with(exchange, 409, "upload_gap");
      bytes += part;
    }
    if (from.size && bytes.size() != *from.size) return refuse_with(exchange, 409, "upload_gap");
    const std::string name = format_address(crypto::hash_object(as_bytes(bytes)));
    if (body.find(name) == std::string::npos) return refuse_with(exchange, 409, "conflict");
    const std::string text = fmt::format(R"({{"address":"{}","size":{}}})", name, bytes.size());
    objects[name] = std::move(bytes);
    answer_json(exchange, 201, text);
  }

  Slab& slab_;
  int made_ = 0;
};

class SimulatedStorage {
 public:
  explicit SimulatedStorage(std::uint64_t seed = 1)
      : world(seed),
        host(world.add_node("host")),
        home(world.add_node("home")),
        host_machine_(host.machine()),
        home_machine_(home.machine()) {
    {
      ShardScope here(host.shard());
      shelf_ = std::make_unique<Shelf>(host_machine_.slab);
      server_ = std::make_unique<http::Server>(host_machine_, *shelf_, *shelf_, http::ServerOptions{});
      CHECK(server_->listen({"host", 80, {}}).has_value());
      server_->start(host.scope());
    }
    ShardScope here(home.shard());
    TransportOptions options;
    options.endpoint = {"host", 80, {}};
    options.token = "secret-token";
    transport_ = std::make_unique<Transport>(home_machine_, options);
    storage_ = std::make_unique<StorageClient>(*transport_);
  }
  ~SimulatedStorage() {
    run(closing(home.scope().call(), transport_.get()));
    {
      ShardScope here(home.shard());
      storage_.reset();
      transport_.reset();
    }
    {
      ShardScope here(host.shard());
      server_->drain();
    }
    world.run_until([&] { return host.scope().empty(); });
    {
      ShardScope here(host.shard());
      server_.reset();
      shelf_.reset();
    }
    world.stop();
  }
  SimulatedStorage(const SimulatedStorage&) = delete;
  SimulatedStorage& operator=(const SimulatedStorage&) = delete;

  Shelf& shelf() noexcept { return *shelf_; }
  StorageClient* storage() noexcept { return storage_.get(); }
  io::Machine& machine() noexcept { return home_machine_; }
  Call call() noexcept { return home.scope().call(); }
  std::size_t asked(std::string_view beginning) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        shelf_->seen, [&](const std::string& one) { return one.starts_with(beginning); }));
  }

  // Runs the task on the client's node to its end.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    {
      ShardScope here(home.shard());
      home.scope().spawn("test", keep(std::move(task), &result));
    }
    CHECK(world.run_until([&] { return result.has_value(); }));
    return std::move(*result);
  }

  io::sim::World world;
  io::sim::Node& host;
  io::sim::Node& home;

 private:
  template <class T>
  static Task<> keep(Task<T> task, std::optional<T>* to) {
    to->emplace(co_await std::move(task));
  }
  static Task<bool> closing(Call call, Transport* transport) {
    co_await transport->close(call);
    co_return true;
  }

  io::Machine host_machine_;
  io::Machine home_machine_;
  std::unique_ptr<Shelf> shelf_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<StorageClient> storage_;
};

// Bytes that differ everywhere, the same for the same size.
inline std::string sample_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = size + 1;
  for (char& c : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return bytes;
}

}  // namespace cairn::client
