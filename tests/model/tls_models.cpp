// A handshake of TLS whose server, or whose client, is stopped at any step.
#include <string>

#include "io/tls_sample.h"
#include "io/tls_stream.h"
#include "model/models.h"
#include "model/wire_end.h"

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
