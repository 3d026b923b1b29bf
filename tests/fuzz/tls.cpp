// A stranger's bytes before the handshake ends, in fuzz-chosen pieces, possibly behind a real ClientHello.
// The stream must not crash, must not be done without a peer that knows what it does, must hold bounded
// memory, and must give back all of it. Or a script of what a real client sends after its handshake: data,
// key updates, garbage, an end. What is read is what was sent, the end is told only if the client said it,
// and only many key updates in a row are too many.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/splits.h"
#include "io/tls_sample.h"
#include "io/tls_stream.h"
#include "runtime/shard.h"

namespace cairn {
namespace {

using fuzz::require;

// The stream below: gives the stranger's bytes piece by piece, and takes everything.
class Stranger final : public io::Stream {
 public:
  Stranger(Shard& shard, std::string bytes, std::uint32_t seed)
      : Stream(shard), bytes_(std::move(bytes)), splits_(seed) {
    readable.signal();
    writable.signal();
  }
  io::Io try_read(MutableByteView into) noexcept override {
    if (paused_) {
      paused_ = false;
      readable.clear();
      return {io::IoStatus::would_block};
    }
    if (at_ == bytes_.size() && open) {
      readable.clear();
      return {io::IoStatus::would_block};
    }
    if (at_ == bytes_.size()) return {io::IoStatus::eof};
    const std::size_t count = std::min(into.size(), splits_.next(bytes_.size() - at_));
    std::copy_n(as_bytes(std::string_view(bytes_)).data() + at_, count, into.data());
    at_ += count;
    paused_ = true;
    return {io::IoStatus::done, count};
  }
  io::Io try_discard(std::size_t) noexcept override { return {io::IoStatus::eof}; }
  io::Io try_writev(std::span<const iovec> parts) noexcept override {
    std::size_t count = 0;
    for (const iovec& each : parts) {
      answer.append(static_cast<const char*>(each.iov_base), each.iov_len);
      count += each.iov_len;
    }
    return {io::IoStatus::done, count};
  }
  io::Io try_send_file(io::File&, std::uint64_t, std::size_t) noexcept override {
    return {io::IoStatus::failed};
  }
  std::uint64_t unacknowledged() const noexcept override { return 0; }
  void cork(bool) noexcept override {}
  void shutdown_send() noexcept override {}
  void close(bool) noexcept override {}
  io::PeerAddress peer() const noexcept override { return {}; }

  void arrive(std::string_view bytes) {
    bytes_ += bytes;
    readable.signal();
  }
  bool is_used_up() const noexcept { return at_ == bytes_.size(); }

  std::string answer;
  bool open = false;  // more may come

 private:
  std::string bytes_;
  fuzz::Splits splits_;
  std::size_t at_ = 0;
  bool paused_ = false;
};

struct Sides {
  Sides() : authority(WallTime{1'767'225'600'000}), server(authority.server()), client(authority.client()) {}
  io::SampleAuthority authority;
  std::shared_ptr<const io::TlsServer> server;
  std::shared_ptr<const io::TlsClient> client;
};

// Tries the handshake until it ends or has nothing more to read.
bool shake(io::TlsStream& stream, io::Stream& below) {
  using Step = io::TlsStream::Handshake;
  for (int i = 0; i < 100'000; ++i) {
    const Step step = stream.try_handshake();
    if (step == Step::done || step == Step::failed) return step == Step::done;
    below.readable.signal();
  }
  require(false, "a handshake that never ends");
  return false;
}

// The first flight of a real client, as what a stranger's bytes may follow.
std::string real_hello(const Sides& sides, Shard& shard) {
  Slab slab;
  auto below = std::make_unique<Stranger>(shard, "", 0);
  Stranger* seen = below.get();
  auto client = io::TlsStream::connect(sides.client, shard, slab, std::move(below), "server");
  seen->readable.clear();
  (void)client->try_handshake();
  return seen->answer;
}

void check(const Sides& sides, Shard& shard, std::string bytes, std::uint32_t seed, bool as_server) {
  Slab slab;
  {
    auto below = std::make_unique<Stranger>(shard, std::move(bytes), seed);
    Stranger* stranger = below.get();
    auto stream = as_server ? io::TlsStream::accept(sides.server, shard, slab, std::move(below))
                            : io::TlsStream::connect(sides.client, shard, slab, std::move(below), "server");
    require(stream != nullptr, "a stream");
    require(!shake(*stream, *stranger), "a stranger without a key ended the handshake");
    require(stranger->answer.size() <= 64 << 10, "a long answer to a stranger");
    require(slab.bytes_in_use() <= io::TlsStream::unsent_max, "memory of a handshake");
    std::byte room[16];
    require(stream->try_read(room).status == io::IoStatus::failed, "a broken stream gives bytes");
    const iovec part{room, sizeof room};
    require(stream->try_writev({&part, 1}).status == io::IoStatus::failed, "a broken stream takes bytes");
  }
  require(slab.outstanding() == 0, "memory that is not given back");
}

// A client that has shaken hands with a stream, and does what the bytes of a script say.
class Session {
 public:
  Session(const Sides& sides, Shard& shard, Slab& slab, std::uint32_t seed) {
    auto below = std::make_unique<Stranger>(shard, "", seed);
    below_ = below.get();
    below_->open = true;
    stream_ = io::TlsStream::accept(sides.server, shard, slab, std::move(below));
    bool done = false;
    for (int i = 0; i < 10'000 && !(done && client_.shake()); ++i) {
      (void)client_.shake();
      carry();
      below_->readable.signal();
      done = stream_->try_handshake() == io::TlsStream::Handshake::done;
      client_.take(std::exchange(below_->answer, {}));
    }
    require(done, "a handshake with a real client");
  }
  void act(std::string_view script) {
    while (!script.empty()) {
      const auto what = static_cast<unsigned char>(take(script)),
                 size = static_cast<unsigned char>(take(script));
      switch (what % 8) {
        case 0:
          for (unsigned i = 0; i < size % 64u && !said_end_; ++i) update_key((what & 8) != 0);
          break;
        case 1:
          if (!said_end_) write(std::string(1 + size * 8u, static_cast<char>('a' + size % 26)));
          break;
        case 2:
          damaged_ = true;
          carry(script.substr(0, size));
          script.remove_prefix(std::min<std::size_t>(size, script.size()));
          break;
        case 3:
          if (!said_end_) (void)SSL_shutdown(client_.raw());
          said_end_ = true;
          break;
        case 4:
          answer(size);
          break;
        case 5:
          carry();
          below_->open = false;
          damaged_ = true;
          break;
        default:
          carry();
          read(1 + size * 64u);
      }
    }
    carry();
    below_->open = false;
    read(65'536);
    require(damaged_ || stream_->is_flooded() || got_ == sent_, "bytes that did not arrive");
    require(!stream_->is_flooded() || longest_row_ > 30, "a few key updates are a flood");
    require(longest_row_ <= 32 || damaged_ || stream_->is_flooded(), "a flood that is no flood");
  }

 private:
  static char take(std::string_view& script) noexcept {
    const char first = script.empty() ? '\0' : script.front();
    if (!script.empty()) script.remove_prefix(1);
    return first;
  }
  void carry(std::string_view behind = {}) {
    std::string bytes = client_.give();
    bytes += behind;
    if (!bytes.empty()) below_->arrive(bytes);
  }
  void update_key(bool both) {
    client_.update_key(both);
    longest_row_ = std::max(longest_row_, ++row_);
  }
  void write(const std::string& text) {
    client_.write(text);
    sent_ += text;
    row_ = 0;
  }
  void answer(std::size_t size) {
    const std::string text(1 + size, 'x');
    const iovec part{const_cast<char*>(text.data()), text.size()};
    (void)stream_->try_writev({&part, 1});
  }
  // Until nothing is left that has arrived.
  void read(std::size_t most) {
    std::string room(most, ' ');
    for (int attempts = 0;; ++attempts) {
      require(attempts < 1'000'000, "reading that never ends");
      below_->readable.signal();
      const io::Io got = stream_->try_read(std::as_writable_bytes(std::span(room)));
      if (got.status == io::IoStatus::done) {
        got_.append(room, 0, got.count);
        require(sent_.starts_with(got_), "bytes that nobody sent");
      }
      require(got.status != io::IoStatus::eof || said_end_, "an end that nobody said");
      if (got.status == io::IoStatus::eof || got.status == io::IoStatus::failed) return;
      if (got.status == io::IoStatus::would_block && below_->is_used_up() && below_->open) return;
    }
  }

  io::BareTlsClient client_;
  Stranger* below_ = nullptr;
  std::unique_ptr<io::TlsStream> stream_;
  std::string sent_, got_;
  bool said_end_ = false, damaged_ = false;
  unsigned row_ = 0, longest_row_ = 0;
};

void check_session(const Sides& sides, Shard& shard, std::string_view script, std::uint32_t seed) {
  Slab slab;
  {
    Session session(sides, shard, slab, seed);
    session.act(script);
    require(slab.bytes_in_use() <= io::TlsStream::unsent_max, "memory of a session");
  }
  require(slab.outstanding() == 0, "memory that is not given back");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  using namespace cairn;
  static const Sides sides;
  Shard shard;
  ShardScope here(shard);
  std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[1] & 4) != 0) {
    check_session(sides, shard, bytes, data[0] % 4u);
    return 0;
  }
  // A real hello whose bytes the input replaces from some place on, or follows.
  if ((data[1] & 1) != 0) {
    std::string hello = real_hello(sides, shard);
    const std::size_t keep = (data[1] & 2) != 0 ? hello.size() : hello.size() * data[0] / 256;
    bytes = hello.substr(0, keep) + bytes;
  }
  for (const std::uint32_t seed : {0u, 1u, 2u + data[0]}) {
    check(sides, shard, bytes, seed, true);
    check(sides, shard, bytes, seed, false);
  }
  return 0;
}
