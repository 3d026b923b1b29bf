// A handshake of TLS whose server, or whose client, is stopped at any step.
#include <string>

#include "io/tls_sample.h"
#include "io/tls_stream.h"
#include "model/models.h"

namespace cairn::model {
namespace {

// Certificates are made once for all runs.
struct Parties {
  Parties()
      : authority(WallTime{1'767'225'600'000}), server(authority.server()), client(authority.client()) {}
  io::SampleAuthority authority;
  std::shared_ptr<const io::TlsServer> server;
  std::shared_ptr<const io::TlsClient> client;
};

// One end of a wire. A write is seen by the other end at once.
class WireEnd final : public io::Stream {
 public:
  explicit WireEnd(Shard& shard) : Stream(shard), shard_(shard), identity_(shard.new_identity()) {
    writable.signal();
  }
  ~WireEnd() override { close(false); }
  static void join(WireEnd& a, WireEnd& b) noexcept {
    a.other_ = &b;
    b.other_ = &a;
  }

  io::Io try_read(MutableByteView into) noexcept override {
    touch();
    if (arrived_.empty()) {
      if (ended_) return {io::IoStatus::eof};
      readable.clear();
      return {io::IoStatus::would_block};
    }
    const std::size_t count = std::min(into.size(), arrived_.size());
    std::copy_n(as_bytes(std::string_view(arrived_)).data(), count, into.data());
    arrived_.erase(0, count);
    return {io::IoStatus::done, count};
  }
  io::Io try_discard(std::size_t) noexcept override { return {io::IoStatus::failed}; }
  io::Io try_writev(std::span<const iovec> parts) noexcept override {
    touch();
    if (other_ == nullptr) return {io::IoStatus::failed};
    std::size_t count = 0;
    for (const iovec& each : parts) {
      other_->arrived_.append(static_cast<const char*>(each.iov_base), each.iov_len);
      count += each.iov_len;
    }
    other_->touch();
    other_->readable.signal();
    return {io::IoStatus::done, count};
  }
  io::Io try_send_file(io::File&, std::uint64_t, std::size_t) noexcept override {
    return {io::IoStatus::failed};
  }
  std::uint64_t unacknowledged() const noexcept override { return 0; }
  void cork(bool) noexcept override {}
  void shutdown_send() noexcept override { end_other(); }
  void close(bool) noexcept override {
    end_other();
    if (other_ != nullptr) other_->other_ = nullptr;
    other_ = nullptr;
  }
  io::PeerAddress peer() const noexcept override { return {}; }

 private:
  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  void end_other() noexcept {
    touch();
    if (other_ == nullptr || other_->ended_) return;
    other_->touch();
    other_->ended_ = true;
    other_->tell_peer_gone();
    other_->readable.signal();
  }

  Shard& shard_;
  std::uint64_t identity_;
  WireEnd* other_ = nullptr;
  std::string arrived_;
  bool ended_ = false;
};

enum class Victim { server, client };

class Handshake : public Model {
 public:
  Handshake(World& world, std::shared_ptr<const Parties> parties, Victim victim)
      : world_(world), parties_(std::move(parties)), stopped_(world.shard, world.scope.call()) {
    auto server = std::make_unique<WireEnd>(world.shard), client = std::make_unique<WireEnd>(world.shard);
    WireEnd::join(*server, *client);
    const bool of_server = victim == Victim::server;
    Scope &servers = of_server ? stopped_ : world.scope, &clients = of_server ? world.scope : stopped_;
    servers.spawn("server", serve(servers.call(), std::move(server)));
    clients.spawn("client", ask(clients.call(), std::move(client)));
    world.scope.spawn("canceller", cancels(stopped_, StopReason::superseded));
  }
  void at_end() override {
    world_.expect(server_ended_ && client_ended_, "hangs", "an end still waits for the other");
    world_.expect(slab_.outstanding() == 0, "leak", "a handshake left a buffer behind");
    world_.expect(got_ != "end" || said_end_, "false_end",
                  "the client saw an end that the server did not say");
    world_.expect(got_ != "text" || said_end_, "false_text", "the client got a text that was not sent");
  }
  std::string state() const override { return told_; }

 private:
  Task<> serve(Call call, std::unique_ptr<io::Stream> below) {
    {
      auto made = co_await io::accept_tls(call, parties_->server, &world_.shard, &slab_, std::move(below));
      told_ += made ? "S" : "s";
      if (made) {
        said_end_ = true;
        static constexpr std::string_view text = "text";
        const iovec part{const_cast<char*>(text.data()), text.size()};
        (void)(*made)->try_writev({&part, 1});
        (*made)->close();
      }
    }
    server_ended_ = true;
  }
  Task<> ask(Call call, std::unique_ptr<io::Stream> below) {
    {
      auto made =
          co_await io::connect_tls(call, parties_->client, &world_.shard, &slab_, std::move(below), "server");
      told_ += made ? "C" : "c";
      if (made) co_await read(call, made->get());
    }
    client_ended_ = true;
  }
  Task<> read(Call call, io::Stream* stream) {
    std::byte room[16];
    for (;;) {
      if (!co_await stream->readable.wait(call)) co_return;
      const io::Io io = stream->try_read(room);
      if (io.status == io::IoStatus::would_block) continue;
      if (io.status == io::IoStatus::failed) co_return;
      if (io.status == io::IoStatus::done) got_ = "text";
      told_ += io.status == io::IoStatus::done ? "t" : "e";
      if (io.status == io::IoStatus::done) continue;
      if (got_.empty()) got_ = "end";
      co_return;
    }
  }

  World& world_;
  std::shared_ptr<const Parties> parties_;
  Slab slab_;
  Scope stopped_;
  std::string told_, got_;
  bool server_ended_ = false, client_ended_ = false, said_end_ = false;
};

}  // namespace

void add_tls_models(std::vector<ModelSpec>& to) {
  const auto parties = std::make_shared<const Parties>();
  to.push_back(spec<Handshake>("tls_server_cancel", parties, Victim::server));
  to.push_back(spec<Handshake>("tls_client_cancel", parties, Victim::client));
}

}  // namespace cairn::model
