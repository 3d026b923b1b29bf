#include "io/tcp.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "io/file.h"

namespace cairn::io {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

PeerAddress peer_of(const sockaddr_storage& from, int descriptor) noexcept {
  PeerAddress peer;
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    peer.bytes[10] = peer.bytes[11] = 0xff;
    std::memcpy(peer.bytes + 12, &v4.sin_addr, 4);
    peer.port = ntohs(v4.sin_port);
  } else if (from.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    std::memcpy(peer.bytes, &v6.sin6_addr, 16);
    peer.port = ntohs(v6.sin6_port);
  } else {
    ucred who{};
    socklen_t size = sizeof who;
    peer.local = true;
    peer.uid = getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.uid : ~0u;
    peer.same_user = peer.uid == geteuid();
  }
  return peer;
}

// After this long the kernel acknowledges what it has held back, and holds nothing back from then on.
constexpr Duration acknowledged_after = Duration::millis(40);
// A read of at least this much is no message that its sender might wait behind.
constexpr std::size_t short_read_max = 4096;

bool would_block(int problem) noexcept { return problem == EAGAIN || problem == EWOULDBLOCK; }

// A request is acknowledged by its answer, and an answer by the next request: the kernel is told to hold its
// own acknowledgements back (TCP_QUICKACK 0), each of which costs as much as another send. Only a task that
// waits for more of a message lets the peer know at once what has arrived, because a peer with Nagle's
// algorithm may be waiting for that.
class TcpStream final : public Stream, public Pollable {
 public:
  TcpStream(Loop& loop, int descriptor, PeerAddress peer) noexcept
      : Stream(loop.shard()), shard_(loop.shard()), descriptor_(descriptor), peer_(peer) {
    if (peer_.local) return;
    readable.before_wait([](void* self) noexcept { static_cast<TcpStream*>(self)->acknowledge(); }, this);
  }
  ~TcpStream() override { close(false); }

  void on_events(std::uint32_t events) noexcept override {
    // No further edge comes after the end of the stream, so it is remembered here: a short read clears the
    // readiness.
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) tell_peer_gone();
    if ((events & EPOLLIN) != 0 || peer_gone()) readable.signal();
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writable.signal();
  }

  Io try_read(MutableByteView into) noexcept override { return receive(into.data(), into.size(), 0); }
  Io try_discard(std::size_t count) noexcept override {
    if (!peer_.local) return receive(nullptr, count, MSG_TRUNC);
    std::array<std::byte, 16384> scratch;  // a Unix socket cannot drop without copying
    return receive(scratch.data(), std::min(count, scratch.size()), 0);
  }

  Io try_writev(std::span<const iovec> parts) noexcept override {
    const int flags = MSG_NOSIGNAL | (corked_ ? MSG_MORE : 0);
    ssize_t sent = 0;
    if (parts.size() == 1) {
      sent = ::send(descriptor_, parts[0].iov_base, parts[0].iov_len, flags);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(parts.data());
      message.msg_iovlen = parts.size();
      sent = ::sendmsg(descriptor_, &message, flags);
    }
    return written(sent);
  }

  Io try_send_file(File& file, std::uint64_t offset, std::size_t count) noexcept override {
    auto at = static_cast<off_t>(offset);
    const ssize_t sent = ::sendfile(descriptor_, file.descriptor(), &at, count);
    // Zero is the end of a file that was longer when its size was asked.
    if (sent == 0 && count > 0) return {IoStatus::failed};
    return written(sent);
  }

  std::uint64_t unacknowledged() const noexcept override {
    int bytes = 0;
    return ioctl(descriptor_, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }
  void cork(bool on) noexcept override { corked_ = on; }
  void shutdown_send() noexcept override { ::shutdown(descriptor_, SHUT_WR); }
  void close(bool reset) noexcept override {
    if (descriptor_ < 0) return;
    if (reset) {
      const linger now{.l_onoff = 1, .l_linger = 0};
      setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    ::close(descriptor_);
    descriptor_ = -1;
  }
  PeerAddress peer() const noexcept override { return peer_; }

 private:
  Io receive(void* into, std::size_t count, int flags) noexcept {
    const ssize_t got = ::recv(descriptor_, into, count, flags);
    if (got > 0) {
      const auto size = static_cast<std::size_t>(got);
      if (size < count && !peer_gone()) readable.clear();
      received_at_ = shard_.now();
      unanswered_ = true;
      is_short_ = size < short_read_max;
      return {IoStatus::done, size};
    }
    if (got == 0) return {IoStatus::eof};
    if (would_block(errno)) {
      readable.clear();
      return {IoStatus::would_block};
    }
    return {IoStatus::failed};
  }
  Io written(ssize_t sent) noexcept {
    if (sent >= 0) {
      hold_back();
      return {IoStatus::done, static_cast<std::size_t>(sent)};
    }
    if (would_block(errno)) {
      writable.clear();
      return {IoStatus::would_block};
    }
    return {IoStatus::failed};
  }

  // What has arrived was acknowledged with what was just sent.
  void hold_back() noexcept {
    if (peer_.local) return;
    const bool was_late =
        std::exchange(unanswered_, false) && shard_.now() - received_at_ >= acknowledged_after;
    if (std::exchange(holds_back_, true) && !was_late) return;
    const int off = 0;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
  }
  void acknowledge() noexcept {
    if (!holds_back_ || !unanswered_ || !is_short_) return;
    holds_back_ = false;
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
  }

  Shard& shard_;
  int descriptor_;
  bool corked_ = false;
  bool holds_back_ = false;  // the kernel was told to
  bool unanswered_ = false;  // nothing was sent since the last bytes came
  bool is_short_ = false;    // these were few
  Instant received_at_{};
  PeerAddress peer_;
};

class TcpListener final : public Listener, public Pollable {
 public:
  TcpListener(Loop& loop, int descriptor, bool loopback) noexcept
      : Listener(loop.shard()), loop_(loop), descriptor_(descriptor), loopback_(loopback) {}
  ~TcpListener() override { close(); }

  void on_events(std::uint32_t) noexcept override { acceptable.signal(); }

  Accepted try_accept() noexcept override {
    SocketAddress from;
    const int descriptor = accept4(descriptor_, from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      if (would_block(errno)) {
        acceptable.clear();
        return {IoStatus::would_block, nullptr};
      }
      // The peer gave up while queued; other connections may be queued behind it.
      if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO || errno == EPERM) return try_accept();
      return {IoStatus::failed, nullptr};
    }
    PeerAddress peer = peer_of(from.storage, descriptor);
    peer.loopback = loopback_;
    auto stream = std::make_unique<TcpStream>(loop_, descriptor, peer);
    if (!loop_.watch(descriptor, *stream)) return {IoStatus::failed, nullptr};
    return {IoStatus::done, std::move(stream)};
  }

  void close() noexcept override {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    descriptor_ = -1;
    struct stat is{};
    // Only if the file is still this listener's: another instance may have taken the name over.
    if (!path_.empty() && lstat(path_.c_str(), &is) == 0 && is.st_ino == inode_) ::unlink(path_.c_str());
  }

  std::string local_address() const override {
    if (!path_.empty()) return "unix:" + path_;
    SocketAddress at;
    if (getsockname(descriptor_, at.get(), &at.size) != 0) return "";
    char host[INET6_ADDRSTRLEN] = "";
    if (at.storage.ss_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(at.storage);
      inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
      return std::string(host) + ":" + std::to_string(ntohs(v4.sin_port));
    }
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at.storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  void set_path(std::string path) {
    path_ = std::move(path);
    struct stat is{};
    if (lstat(path_.c_str(), &is) == 0) inode_ = is.st_ino;
  }

 private:
  Loop& loop_;
  int descriptor_;
  bool loopback_;
  std::string path_;
  ino_t inode_ = 0;
};

bool to_address(const Endpoint& endpoint, SocketAddress& out) noexcept {
  if (!endpoint.path.empty()) {
    auto& un = reinterpret_cast<sockaddr_un&>(out.storage);
    if (endpoint.path.size() >= sizeof un.sun_path) return false;
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path, endpoint.path.c_str(), endpoint.path.size() + 1);
    out.size = sizeof un;
    return true;
  }
  const std::string host = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    out.size = sizeof v4;
    return true;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return false;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(endpoint.port);
  out.size = sizeof v6;
  return true;
}

// Bytes not yet on the wire, per connection: the limit on the kernel memory that a peer that stops reading
// can hold. A limit below a usual large answer would cost CPU (at 128 KiB an answer of 1 MiB takes twice as
// much), and a fixed send buffer would end the kernel's own tuning.
constexpr int unsent_bytes_max = 1 << 20;

// The listener's options are inherited by every accepted connection, which saves six system calls for each.
//
// No TCP_USER_TIMEOUT: it also ends connections whose peer is alive and reads slowly. The kernel forgets that
// a window was shut only when it opens by a whole segment of the sender.
void tune(int descriptor) noexcept {
  const int on = 1, idle = 60, interval = 10, probes = 6;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes_max, sizeof unsent_bytes_max);
}

Result<SocketAddress> look_up(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found) != 0 || found == nullptr)
    return fail(ErrorCode::connection_lost, "name look-up", Side::upstream);
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  if (address.storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(endpoint.port);
  else
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(endpoint.port);
  return address;
}

Result<> private_directory(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return fail(ErrorCode::invalid, "the socket's path needs a directory");
  const std::string directory = path.substr(0, slash);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_failed, "socket directory");
  struct stat is{};
  if (stat(directory.c_str(), &is) != 0) return fail(ErrorCode::io_failed, "socket directory");
  if ((is.st_mode & 0077) != 0) return fail(ErrorCode::invalid, "the socket's directory must be 0700");
  return {};
}

// Removes the socket of a killed instance; anything else at that path stays and is an error.
Result<> remove_dead_socket(const std::string& path, SocketAddress& address) {
  struct stat is{};
  if (lstat(path.c_str(), &is) != 0) return {};
  if (!S_ISSOCK(is.st_mode)) return fail(ErrorCode::conflict, "the socket's path is something else");
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool alive = probe >= 0 && ::connect(probe, address.get(), address.size) == 0;
  if (probe >= 0) ::close(probe);
  if (alive) return fail(ErrorCode::conflict, "another instance serves this socket");
  ::unlink(path.c_str());
  return {};
}

}  // namespace

Result<> probe_bind(const Endpoint& endpoint) {
  SocketAddress address;
  if (!to_address(endpoint, address)) return fail(ErrorCode::invalid, "listen needs a numeric address");
  const int descriptor = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return fail(ErrorCode::io_failed, "socket");
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(descriptor, address.get(), address.size) == 0;
  const int problem = errno;
  ::close(descriptor);
  if (bound) return {};
  if (problem == EADDRINUSE) return fail(ErrorCode::conflict, "the port is taken");
  return fail(ErrorCode::io_failed, "bind");
}

Result<std::unique_ptr<Listener>> TcpNetwork::listen(const Endpoint& endpoint) {
  const bool local = !endpoint.path.empty();
  SocketAddress address;
  if (!to_address(endpoint, address)) return fail(ErrorCode::invalid, "listen needs a numeric address");
  if (local) {
    TRY_VOID(private_directory(endpoint.path));
    TRY_VOID(remove_dead_socket(endpoint.path, address));
  }
  const int descriptor = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return fail(ErrorCode::io_failed, "socket");
  auto listener = std::make_unique<TcpListener>(loop_, descriptor, !local && endpoint.is_loopback());
  if (!local) {
    const int on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    tune(descriptor);
  }
  if (bind(descriptor, address.get(), address.size) != 0)
    return fail(errno == EADDRINUSE ? ErrorCode::conflict : ErrorCode::io_failed, "bind");
  if (local) {
    listener->set_path(endpoint.path);
    if (chmod(endpoint.path.c_str(), 0600) != 0) return fail(ErrorCode::io_failed, "socket mode");
  }
  if (::listen(descriptor, 4096) != 0) return fail(ErrorCode::io_failed, "listen");
  TRY_VOID(loop_.watch(descriptor, *listener));
  return listener;
}

Task<Result<std::unique_ptr<Stream>>> TcpNetwork::connect(Call call, Endpoint endpoint) {
  SocketAddress address;
  if (!to_address(endpoint, address)) {
    CO_TRY(address, co_await run(pool_, call, Lane::dns, [endpoint] { return look_up(endpoint); }));
  }
  const int descriptor = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) co_return fail(ErrorCode::degraded, "no descriptor is left for a connection");
  const bool local = address.storage.ss_family == AF_UNIX;
  if (!local) tune(descriptor);
  auto stream = std::make_unique<TcpStream>(loop_, descriptor, peer_of(address.storage, descriptor));
  const bool started = ::connect(descriptor, address.get(), address.size) == 0;
  if (!started && errno != EINPROGRESS) co_return fail(ErrorCode::connection_lost, "connect", Side::upstream);
  CO_TRY_VOID(loop_.watch(descriptor, *stream));
  if (!started) {
    stream->writable.clear();
    CO_TRY_VOID(co_await stream->writable.wait(call));
    int problem = 0;
    socklen_t size = sizeof problem;
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem != 0) co_return fail(ErrorCode::connection_lost, "connect", Side::upstream);
  }
  co_return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace cairn::io
