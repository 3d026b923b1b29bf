// Stream and Listener: a connection and where connections come from, real or simulated; TCP, Unix socket,
// later TLS. Attempts never block; waiting is done on its Direction.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "io/direction.h"
#include "runtime/task.h"

namespace cairn::io {

class File;

enum class IoStatus : std::uint8_t { done, would_block, eof, failed };
struct Io {
  IoStatus status;
  std::size_t count = 0;
};

// Where a peer is. Counted per address by the connection caps; a Unix peer has a uid instead.
struct PeerAddress {
  std::uint8_t bytes[16] = {};  // IPv6, or IPv4 mapped
  std::uint16_t port = 0;
  bool local = false;     // a Unix socket
  bool loopback = false;  // the connection came to a listener that is bound to loopback
  std::uint32_t uid = 0;
  bool same_user = false;  // of a Unix peer: the uid this process runs as
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};
std::string format_peer(const PeerAddress& peer);

class Stream {
 public:
  explicit Stream(Shard& shard) noexcept : readable(shard), writable(shard) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // `done` with count > 0, or the reason for none. would_block has cleared the readiness, or has paused it:
  // then the wait for it only gives others their turn. A short read also clears `readable`: the kernel had no
  // more bytes, and its next edge says when it has.
  virtual Io try_read(MutableByteView into) noexcept = 0;
  // Reads and throws away up to `count` bytes without copying them.
  virtual Io try_discard(std::size_t count) noexcept = 0;
  virtual Io try_writev(std::span<const iovec> parts) noexcept = 0;
  virtual Io try_send_file(File& file, std::uint64_t offset, std::size_t count) noexcept = 0;
  // Bytes written that the peer's kernel has not acknowledged. For a Unix socket: bytes that the peer has not
  // read, in whole writes and with the kernel's overhead for each. A system call: not for every write.
  virtual std::uint64_t unacknowledged() const noexcept = 0;
  // While on, the kernel sends no part segment, because more bytes follow (a file range after a head). Costs
  // no system call.
  virtual void cork(bool on) noexcept = 0;
  // No more will be sent; the peer sees the end.
  virtual void shutdown_send() noexcept = 0;
  // Whether the end that shutdown_send() promised is still on its way out. Asking sends on as much as goes
  // now; it goes on when `writable`. A stream of the kernel does this by itself.
  virtual bool is_ending() noexcept { return false; }
  // Ends the connection at once; `reset` with RST, so that nothing lingers. Idempotent.
  virtual void close(bool reset = false) noexcept = 0;
  virtual PeerAddress peer() const noexcept = 0;
  // Whether nobody between the two ends can read or change what is sent.
  virtual bool is_encrypted() const noexcept { return false; }
  // The protocol that both ends agreed upon beforehand, by its name in TLS (ALPN): "h2", "http/1.1". Empty:
  // none.
  virtual std::string_view protocol() const noexcept { return {}; }

  // `gone(argument)` is called, at most once, when the peer is seen to end its side or break the connection;
  // at once if it has. nullptr forgets it. Runs outside any task: it may only mark or cancel.
  void on_peer_gone(void (*gone)(void*) noexcept, void* argument) noexcept {
    gone_ = gone;
    gone_argument_ = argument;
    if (peer_gone_) tell_peer_gone();
  }

  Direction readable;
  Direction writable;

 protected:
  // For the real and the simulated stream.
  bool peer_gone() const noexcept { return peer_gone_; }
  void tell_peer_gone() noexcept {
    peer_gone_ = true;
    if (auto* gone = std::exchange(gone_, nullptr)) gone(gone_argument_);
  }

 private:
  void (*gone_)(void*) noexcept = nullptr;
  void* gone_argument_ = nullptr;
  bool peer_gone_ = false;
};

class Listener {
 public:
  explicit Listener(Shard& shard) noexcept : acceptable(shard) {}
  virtual ~Listener() = default;

  struct Accepted {
    IoStatus status;  // failed: out of descriptors or memory; wait before trying again
    std::unique_ptr<Stream> stream;
  };
  virtual Accepted try_accept() noexcept = 0;
  virtual void close() noexcept = 0;
  virtual std::string local_address() const = 0;  // as bound: the port is known even if 0 was asked

  Direction acceptable;
};

using cairn::Endpoint;

class Network {
 public:
  virtual ~Network() = default;
  // Numeric or loopback hosts only: a listener's address is never looked up.
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) = 0;
  // Cancel: clean.
  virtual Task<Result<std::unique_ptr<Stream>>> connect(Call call, Endpoint endpoint) = 0;
};

}  // namespace cairn::io
