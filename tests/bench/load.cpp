// A closed-loop HTTP/1.1 (and redis SET) load generator that costs less CPU per request than the server it
// drives, so that the server saturates first and the figures are the server's.
//   [BL-1] One thread, one request in flight per connection; heads are rendered before the clock starts, and
//         of a distinct request only its digits are written later.
//   [BL-2] Every response is checked: status, framing and (with --expect-bytes) length. One that fails is an
//         error, and any error makes the exit code 1: a fast wrong answer must never look like a good figure.
//   [BL-3] Requests, wall time and the CPU time of the watched processes are taken at the same two instants.
// Body bytes are dropped inside the kernel (MSG_TRUNC), so a 64 KiB answer costs the client hardly more than
// a small one.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "head.h"
#include "histogram.h"
#include "options.h"

namespace {

constexpr uint64_t ns_per_second = 1'000'000'000;
constexpr uint64_t stall_limit_ns = 20 * ns_per_second;  // a slow disk may take long over a flush
constexpr int sweep_ms = 100;
constexpr size_t read_bytes = 2048;      // a head and a small body in one read; the rest is truncated away
constexpr uint32_t opening_limit = 128;  // connections being made at once in idle mode: below any backlog
constexpr uint64_t latency_sample = 8;   // one request in so many is timed: plenty for a p99

[[noreturn]] void die_errno(const std::string& what) { die(what + ": " + std::strerror(errno)); }

uint64_t clock_ns(clockid_t id) {
  timespec t{};
  if (clock_gettime(id, &t) != 0) die_errno("clock_gettime");
  return static_cast<uint64_t>(t.tv_sec) * ns_per_second + static_cast<uint64_t>(t.tv_nsec);
}

enum class Phase : uint8_t { sending, head, body, until_eof, idle };

struct Connection {
  int fd = -1;
  Phase phase = Phase::sending;
  bool answered = false;  // at least one response came on this socket
  bool close = false;     // the server announced that it closes after this response
  size_t request = 0;
  uint64_t sent = 0;
  uint64_t body_left = 0;
  uint64_t began = 0;   // 0: this request's latency is not sampled
  std::string partial;  // a head that came in pieces
  std::string own;      // the head of a distinct request
};

// A request up to where the body begins that all requests share.
struct Rendered {
  std::string bytes;
  std::vector<size_t> tags;  // where the digits of a distinct request go
};

class Load {
 public:
  explicit Load(Options options) : options_(std::move(options)) {
    tag_ = random_number();
    for (const Target& target : options_.targets) heads_.push_back(render(target));
    body_.resize(options_.body_bytes - (options_.distinct ? tag_digits : 0));
    uint64_t state = random_number() | 1;
    for (char& c : body_) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      c = static_cast<char>(state);
    }
    if (options_.redis_set) body_ += "\r\n";
    status_counts_.resize(options_.statuses.size());
    connections_.resize(options_.connections);
    for (Connection& c : connections_) c.request = next_request();
    for (pid_t pid : options_.watched) {
      clockid_t id{};
      if (clock_getcpuclockid(pid, &id) != 0) die("no such process to watch: " + std::to_string(pid));
      watched_clocks_.push_back(id);
    }
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) die_errno("epoll_create1");
  }

  int run() { return options_.idle_after_one ? run_idle() : run_timed(); }

 private:
  static uint64_t random_number() {
    uint64_t n = 0;
    if (getrandom(&n, sizeof n, 0) != sizeof n) die_errno("getrandom");
    return n;
  }

  Rendered render(const Target& target) const {
    Rendered out;
    const auto add_tag = [&] {
      out.tags.push_back(out.bytes.size());
      out.bytes.append(tag_digits, '0');
    };
    if (options_.redis_set) {
      out.bytes = "*3\r\n$3\r\nSET\r\n$" + std::to_string(tag_digits) + "\r\n";
      add_tag();
      out.bytes += "\r\n$" + std::to_string(options_.body_bytes) + "\r\n";
      add_tag();
      return out;
    }
    out.bytes = options_.method + " " + target.path;
    if (options_.distinct && target.path.ends_with('=')) add_tag();
    out.bytes += " HTTP/1.1\r\nHost: " + options_.host + "\r\n";
    for (const std::string& h : options_.headers) out.bytes += h + "\r\n";
    if (!target.header.empty()) out.bytes += target.header + "\r\n";
    if (options_.body_bytes > 0 || options_.method == "POST" || options_.method == "PUT")
      out.bytes += "Content-Length: " + std::to_string(options_.body_bytes) + "\r\n";
    out.bytes += "\r\n";
    if (options_.distinct) add_tag();
    return out;
  }

  size_t next_request() {
    const size_t taken = next_;
    next_ = next_ + 1 == heads_.size() ? 0 : next_ + 1;
    return taken;
  }

  const std::string& head_of(const Connection& c) const {
    return options_.distinct ? c.own : heads_[c.request].bytes;
  }

  void make_distinct(Connection& c) {
    const Rendered& head = heads_[c.request];
    c.own = head.bytes;
    ++tag_;
    for (const size_t at : head.tags)
      for (size_t i = 0; i < tag_digits; ++i)
        c.own[at + i] = "0123456789abcdef"[tag_ >> (4 * (tag_digits - 1 - i)) & 15];
  }

  struct Mark {
    uint64_t wall = 0;
    uint64_t own = 0;
    std::vector<uint64_t> watched;
  };

  Mark mark() const {
    Mark m;
    for (clockid_t id : watched_clocks_) m.watched.push_back(clock_ns(id));
    m.own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    m.wall = clock_ns(CLOCK_MONOTONIC);
    return m;
  }

  int run_timed() {
    for (Connection& c : connections_) open(c);
    const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    if (options_.warmup > 0) {
      const uint64_t end = begin + static_cast<uint64_t>(options_.warmup * 1e9);
      while (turn() < end) continue;
    }
    latencies_.clear();
    completed_ = reconnects_ = turns_ = spun_ns_ = 0;
    std::ranges::fill(status_counts_, 0);
    const Mark from = mark();
    if (options_.requests > 0) {
      while (completed_ < options_.requests) turn();
    } else {
      const uint64_t end = from.wall + static_cast<uint64_t>(options_.seconds * 1e9);
      while (turn() < end) continue;
    }
    const uint64_t requests = completed_;
    const Mark to = mark();
    report(requests, from, to);
    return errors_ == 0 && requests > 0 ? 0 : 1;
  }

  // Opens all connections, one request on each, then holds them until stdin closes. The first line of output
  // says that all are served, the second how many the server still held at the end.
  int run_idle() {
    size_t next = 0;
    while (idle_ < connections_.size()) {
      while (next < connections_.size() && next - idle_ < opening_limit) open(connections_[next++]);
      turn();
      if (errors_ > 0) die("idle mode: " + first_error_);
    }
    std::printf("{\"held\": %zu}\n", idle_);
    std::fflush(stdout);
    pollfd in{STDIN_FILENO, POLLIN, 0};
    char discard[64];
    while (poll(&in, 1, -1) > 0 && read(STDIN_FILENO, discard, sizeof discard) > 0) continue;
    size_t open_at_end = 0;
    for (Connection& c : connections_) {
      char byte = 0;
      if (recv(c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) ++open_at_end;
    }
    std::printf("{\"open_at_end\": %zu}\n", open_at_end);
    return open_at_end == connections_.size() ? 0 : 1;
  }

  // Awake between rounds, so that the server pays for its answers and not for waking the client at each of
  // them; what comes meanwhile is taken as one batch. Timers are too coarse for this on a virtual machine.
  void spin() {
    const uint64_t from = clock_ns(CLOCK_MONOTONIC);
    uint64_t now = from;
    while (now < from + options_.gather_us * 1000) {
      for (int i = 0; i < 32; ++i) __builtin_ia32_pause();
      now = clock_ns(CLOCK_MONOTONIC);
    }
    spun_ns_ += now - from;
  }

  // One wait and what it brought; returns the time at its end.
  uint64_t turn() {
    if (options_.gather_us > 0) spin();
    std::array<epoll_event, 256> events;
    const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), sweep_ms);
    if (n < 0 && errno != EINTR) die_errno("epoll_wait");
    ++turns_;
    for (int i = 0; i < n; ++i) {
      Connection& c = connections_[events[static_cast<size_t>(i)].data.u32];
      if (c.phase == Phase::sending) send_request(c);
      if (c.phase != Phase::sending || (events[static_cast<size_t>(i)].events & ~EPOLLOUT) != 0) receive(c);
    }
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (n > 0) last_progress_ = now;
    if (last_progress_ != 0 && now - last_progress_ > stall_limit_ns) die("no answer for 20 s");
    if (last_progress_ == 0) last_progress_ = now;
    return now;
  }

  void open(Connection& c) {
    const auto index = static_cast<uint32_t>(&c - connections_.data());
    c.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c.fd < 0) die_errno("socket");
    const int one = 1;
    setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (options_.sources > 1) {
      // One address has about 28,000 ports; the port is chosen at connect so that addresses share them.
      setsockopt(c.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
      sockaddr_in from{};
      from.sin_family = AF_INET;
      from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + index % options_.sources);
      if (bind(c.fd, reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) die_errno("bind");
    }
    if (connect(c.fd, reinterpret_cast<sockaddr*>(&options_.target), sizeof options_.target) != 0 &&
        errno != EINPROGRESS)
      die_errno("connect");
    epoll_event e{};
    e.events = EPOLLIN | EPOLLOUT | EPOLLET;
    e.data.u32 = index;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &e) != 0) die_errno("epoll_ctl");
    c.answered = false;
    begin_request(c);
  }

  void reopen(Connection& c) {
    ::close(c.fd);
    ++reconnects_;
    open(c);
  }

  void begin_request(Connection& c) {
    c.phase = Phase::sending;
    c.sent = 0;
    c.close = false;
    c.partial.clear();
    if (options_.distinct) make_distinct(c);
    c.began = ++started_ % latency_sample == 0 ? clock_ns(CLOCK_MONOTONIC) : 0;
    send_request(c);
  }

  void send_request(Connection& c) {
    const std::string& head = head_of(c);
    const uint64_t total = head.size() + body_.size();
    while (c.sent < total) {
      std::array<iovec, 2> parts{};
      size_t count = 0;
      if (c.sent < head.size())
        parts[count++] = {const_cast<char*>(head.data()) + c.sent, head.size() - c.sent};
      const uint64_t body_at = c.sent > head.size() ? c.sent - head.size() : 0;
      if (body_at < body_.size()) parts[count++] = {body_.data() + body_at, body_.size() - body_at};
      ssize_t n = 0;
      if (count == 1) {
        n = send(c.fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
      } else {
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = count;
        n = sendmsg(c.fd, &message, MSG_NOSIGNAL);
      }
      if (n < 0) {
        if (errno == EAGAIN) return;
        break;  // the server stopped reading: its answer, if it gave one, is still to be read
      }
      c.sent += static_cast<uint64_t>(n);
    }
    c.phase = Phase::head;
  }

  void receive(Connection& c) {
    if (c.phase == Phase::sending || c.phase == Phase::head) {
      if (!receive_head(c)) return;
    }
    if (c.phase == Phase::body) {
      while (c.body_left > 0) {
        const ssize_t n = recv(c.fd, nullptr, c.body_left, MSG_TRUNC);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) return fail(c, "the body ended early");
        const bool drained = static_cast<uint64_t>(n) < c.body_left;
        c.body_left -= static_cast<uint64_t>(n);
        if (drained) return;
      }
      complete(c);
      return;
    }
    if (c.phase == Phase::until_eof || c.phase == Phase::idle) receive_end(c);
  }

  // True when the head is complete and the connection is in its next phase.
  bool receive_head(Connection& c) {
    const ssize_t n = recv(c.fd, buffer_.data(), buffer_.size(), 0);
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) {
      // A kept-alive connection may be closed between two requests; a fresh one may not.
      if (c.answered && c.partial.empty()) {
        reopen(c);
      } else {
        fail(c, "closed before an answer");
      }
      return false;
    }
    std::string_view in(buffer_.data(), static_cast<size_t>(n));
    if (!c.partial.empty()) in = c.partial.append(in);
    Head head;
    switch (options_.redis_set ? parse_redis_ok(in, head) : parse_head(in, head)) {
      case Parsed::partial:
        if (c.partial.empty()) c.partial = in;
        return receive_head(c);
      case Parsed::bad:
        fail(c, "unreadable head");
        return false;
      case Parsed::head:
        break;
    }
    const bool bodiless = options_.method == "HEAD" || head.status == 204 || head.status == 304;
    const auto known = std::ranges::find(options_.statuses, head.status);
    if (known == options_.statuses.end()) {
      fail(c, "status " + std::to_string(head.status));
      return false;
    }
    if (!bodiless && !head.length) {
      fail(c, "no Content-Length");
      return false;
    }
    if (options_.expect_bytes && head.length != options_.expect_bytes) {
      fail(c, "length " + std::to_string(head.length.value_or(0)));
      return false;
    }
    const uint64_t length = bodiless ? 0 : *head.length;
    const uint64_t here = in.size() - head.bytes;
    if (here > length) {
      fail(c, "bytes after the answer");
      return false;
    }
    ++status_counts_[static_cast<size_t>(known - options_.statuses.begin())];
    head_bytes_ = head.bytes;
    body_bytes_ = length;
    c.body_left = length - here;
    c.close = head.close || c.phase == Phase::sending;  // answered before the request was sent: no next one
    c.answered = true;
    c.phase = Phase::body;
    return true;
  }

  void complete(Connection& c) {
    ++completed_;
    if (c.began != 0) latencies_.add(clock_ns(CLOCK_MONOTONIC) - c.began);
    c.request = next_request();
    if (options_.idle_after_one) {
      if (c.close) return fail(c, "closed after one request");
      c.phase = Phase::idle;
      ++idle_;
    } else if (c.close) {
      // Waiting for the server's end leaves TIME_WAIT on its side, so that no client port is used up.
      c.phase = Phase::until_eof;
      receive_end(c);
    } else {
      begin_request(c);
    }
  }

  void receive_end(Connection& c) {
    char byte = 0;
    const ssize_t n = recv(c.fd, &byte, 1, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n > 0) return fail(c, "bytes after the answer");
    if (c.phase == Phase::idle) return fail(c, "an idle connection was closed");
    reopen(c);
  }

  void fail(Connection& c, const std::string& why) {
    if (errors_++ == 0) first_error_ = why;
    if (errors_ > 10'000) die("too many errors, first: " + first_error_);
    reopen(c);
  }

  void report(uint64_t requests, const Mark& from, const Mark& to) const {
    const double seconds = static_cast<double>(to.wall - from.wall) / 1e9;
    const double count = static_cast<double>(std::max<uint64_t>(requests, 1));
    uint64_t watched = 0;
    for (size_t i = 0; i < to.watched.size(); ++i) watched += to.watched[i] - from.watched[i];
    const auto own = static_cast<double>(to.own - from.own - std::min(spun_ns_, to.own - from.own));
    std::printf("{\"requests\": %llu, \"seconds\": %.6f, \"req_s\": %.1f, \"errors\": %llu, ",
                static_cast<unsigned long long>(requests), seconds, count / seconds,
                static_cast<unsigned long long>(errors_));
    std::printf("\"first_error\": \"%s\", \"reconnects\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, ",
                first_error_.c_str(), static_cast<unsigned long long>(reconnects_),
                latencies_.quantile_us(0.5), latencies_.quantile_us(0.99));
    std::printf("\"statuses\": {");
    for (size_t i = 0; i < status_counts_.size(); ++i)
      std::printf("%s\"%d\": %llu", i == 0 ? "" : ", ", options_.statuses[i],
                  static_cast<unsigned long long>(status_counts_[i]));
    std::printf("}, ");
    std::printf("\"head_bytes\": %zu, \"body_bytes\": %llu, \"turns\": %llu, ", head_bytes_,
                static_cast<unsigned long long>(body_bytes_), static_cast<unsigned long long>(turns_));
    std::printf("\"load_cpu_ns_per_request\": %.1f, \"load_cpu_share\": %.4f, ", own / count,
                own / 1e9 / seconds);
    std::printf("\"server_cpu_ns_per_request\": %.1f, \"server_cpu_share\": %.4f}\n",
                static_cast<double>(watched) / count, static_cast<double>(watched) / 1e9 / seconds);
  }

  Options options_;
  std::string body_;
  std::vector<Rendered> heads_;
  std::vector<Connection> connections_;
  std::vector<uint64_t> status_counts_;  // beside options_.statuses
  std::vector<clockid_t> watched_clocks_;
  std::array<char, read_bytes> buffer_{};
  Histogram latencies_;
  std::string first_error_;
  int epoll_ = -1;
  size_t next_ = 0;
  uint64_t tag_ = 0;
  uint64_t started_ = 0;
  uint64_t completed_ = 0;
  uint64_t reconnects_ = 0;
  uint64_t errors_ = 0;
  uint64_t turns_ = 0;
  uint64_t spun_ns_ = 0;
  uint64_t last_progress_ = 0;
  size_t idle_ = 0;
  size_t head_bytes_ = 0;
  uint64_t body_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options = parse_options(argc, argv);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < options.connections + 16UL) die("the open-file limit is below --connections");
  }
  return Load(std::move(options)).run();
}
