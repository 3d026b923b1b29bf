// A stranger's bytes before the handshake ends, in fuzz-chosen pieces, possibly behind a real ClientHello.
// The stream must not crash, must not be done without a peer that knows what it does, must hold bounded
// memory, and must give back all of it.
#include <algorithm>
#include <memory>
#include <string>

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

  std::string answer;

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

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  using namespace cairn;
  static const Sides sides;
  Shard shard;
  ShardScope here(shard);
  std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
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
