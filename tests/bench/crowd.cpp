// Eight tenants before a gateway, and the upstream behind it: is the greedy one kept from the others?
//   [CW-1] One thread is both the crowd and the upstream, so that an answer costs the same whoever asked.
//   [CW-2] A tenant is a network: tenant I comes from the addresses of 127.0.(10 + I).0/24, so that no bound
//   on
//          one address is what keeps it.
//   [CW-3] A request that comes by the clock is timed from when it was due, not from when it was sent.
// It prints the upstream's port, then reads lines `PORT PHASE SECONDS` and prints what each brought.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "head.h"
#include "histogram.h"

namespace {

constexpr int tenants = 8;
constexpr uint32_t first_network = 10;  // 127.0.10.0/24
constexpr uint64_t addresses = 10;
constexpr int greedy_connections = 800, modest_connections = 8, waiting_connections = 64;
constexpr uint64_t per_second = 60;  // of a tenant whose requests come by the clock
constexpr uint64_t ms = 1'000'000;
constexpr uint64_t again_ns = 40 * ms;  // until one that was refused asks again
constexpr std::string_view request =
    "GET /o/b3:0000000000000000000000000000000000000000000000000000000000000000 HTTP/1.1\r\nHost: "
    "localhost\r\n\r\n";
constexpr std::string_view answer =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(2);
}

uint64_t clock_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

struct Line {
  enum class Role : uint8_t { listener, upstream, client } role = Role::client;
  int fd = -1;
  int tenant = 0;
  bool by_clock = false;
  uint64_t due = 0;  // of the request that is under way; 0: none is
  std::string in;
};

struct Timer {
  uint64_t at = 0;
  enum class Kind : uint8_t { answer, again, arrival } kind = Kind::answer;
  uint64_t who = 0;  // a line, or a tenant
  bool operator>(const Timer& other) const { return at > other.at; }
};

struct Tenant {
  uint64_t served = 0, refused = 0;
  Histogram latencies;
  std::deque<uint64_t> waiting;  // requests that are due, while all connections are busy
  std::vector<uint64_t> idle;
};

class Crowd {
 public:
  Crowd() {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (epoll_ < 0 || fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
        listen(fd, 4096) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      die("listen");
    add(fd).role = Line::Role::listener;
    std::printf("{\"upstream\": %d}\n", ntohs(at.sin_port));
    std::fflush(stdout);
  }

  void run(uint16_t port, std::string_view phase, double seconds) {
    port_ = port;
    crowd_ = {};
    const uint64_t from = clock_ns(), until = from + static_cast<uint64_t>(seconds * 1e9);
    over_ = false;
    const bool by_clock = phase != "units";
    for (int t = 1; t < tenants; ++t) {
      for (int i = 0; i < (by_clock ? waiting_connections : modest_connections); ++i) open(t, by_clock);
      if (by_clock) timers_.push({from + gap(), Timer::Kind::arrival, static_cast<uint64_t>(t)});
    }
    for (int i = 0; phase != "quiet" && i < greedy_connections; ++i) open(0, false);
    while (clock_ns() < until) turn(until);
    report();
    over_ = true;
    std::erase_if(lines_, [](const auto& each) {
      if (each.second->role == Line::Role::client) close(each.second->fd);
      return each.second->role == Line::Role::client;
    });
  }

 private:
  Line& add(int fd) {
    auto line = std::make_unique<Line>();
    line->fd = fd;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = ++last_;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
    return *(lines_[last_] = std::move(line));
  }
  void open(int tenant, bool by_clock) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    sockaddr_in from{}, to{};
    from.sin_family = to.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl((127U << 24) + ((first_network + static_cast<uint32_t>(tenant)) << 8) + 1 +
                                 static_cast<uint32_t>(last_ % addresses));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port_);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) != 0 ||
        connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      die("connect");
    Line& line = add(fd);
    line.tenant = tenant;
    line.by_clock = by_clock;
    if (by_clock)
      crowd_[static_cast<size_t>(tenant)].idle.push_back(last_);
    else
      ask(line, clock_ns());
  }
  uint64_t gap() { return random_() % (2'000'000'000 / per_second); }

  void turn(uint64_t until) {
    const uint64_t now = clock_ns();
    while (!timers_.empty() && timers_.top().at <= now) {
      const Timer timer = timers_.top();
      timers_.pop();
      fire(timer, now);
    }
    const uint64_t next = timers_.empty() ? until : std::min(until, timers_.top().at);
    const uint64_t wait = next > now ? next - now : 0;
    const timespec span{static_cast<time_t>(wait / 1'000'000'000), static_cast<long>(wait % 1'000'000'000)};
    std::array<epoll_event, 256> events;
    const int n = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &span, nullptr);
    for (int i = 0; i < n; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (const auto found = lines_.find(id); found != lines_.end()) take(id, *found->second);
    }
  }

  void fire(const Timer& timer, uint64_t now) {
    if (timer.kind == Timer::Kind::arrival) {
      if (over_) return;
      arrive(static_cast<int>(timer.who), timer.at);
      return timers_.push({timer.at + gap(), Timer::Kind::arrival, timer.who});
    }
    const auto found = lines_.find(timer.who);
    if (found == lines_.end()) return;
    Line& line = *found->second;
    if (timer.kind == Timer::Kind::again) return ask(line, now);
    (void)send(line.fd, answer.data(), answer.size(), MSG_NOSIGNAL);
  }
  void arrive(int tenant, uint64_t due) {
    Tenant& of = crowd_[static_cast<size_t>(tenant)];
    if (of.idle.empty()) return of.waiting.push_back(due);
    Line& line = *lines_.at(of.idle.back());
    of.idle.pop_back();
    ask(line, due);
  }
  void ask(Line& line, uint64_t due) {
    line.due = due;
    if (send(line.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
      die("send");
  }

  void take(uint64_t id, Line& line) {
    if (line.role == Line::Role::listener) {
      const int fd = accept4(line.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      const int one = 1;
      if (fd < 0) return;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      add(fd).role = Line::Role::upstream;
      return;
    }
    char bytes[8192];
    const ssize_t n = recv(line.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      if (line.role == Line::Role::client) die("the gateway closed a connection");
      close(line.fd);
      lines_.erase(id);
      return;
    }
    line.in.append(bytes, static_cast<size_t>(n));
    if (line.role == Line::Role::upstream) {
      // A gateway asks one thing at a time on a connection, and without a body here.
      if (!line.in.ends_with("\r\n\r\n")) return;
      line.in.clear();
      constexpr uint64_t least = 10 * ms, spread = 20 * ms;
      timers_.push({clock_ns() + least + random_() % spread, Timer::Kind::answer, id});
      return;
    }
    Head head;
    const Parsed parsed = parse_head(line.in, head);
    if (parsed == Parsed::bad) die("unreadable answer");
    if (parsed == Parsed::partial || line.in.size() < head.bytes + head.length.value_or(0)) return;
    line.in.clear();
    answered(id, line, head.status);
  }
  void answered(uint64_t id, Line& line, int status) {
    const uint64_t now = clock_ns();
    Tenant& of = crowd_[static_cast<size_t>(line.tenant)];
    if (status == 200) {
      ++of.served;
      of.latencies.add(now - line.due);
    } else {
      ++of.refused;
    }
    if (!line.by_clock)
      return status == 200 ? ask(line, now) : timers_.push({now + again_ns, Timer::Kind::again, id});
    if (of.waiting.empty()) return of.idle.push_back(id);
    const uint64_t due = of.waiting.front();
    of.waiting.pop_front();
    ask(line, due);
  }

  void report() const {
    std::printf("{\"tenants\": [");
    for (size_t t = 0; t < tenants; ++t)
      std::printf("%s{\"served\": %llu, \"refused\": %llu, \"p99_us\": %.1f}", t == 0 ? "" : ", ",
                  static_cast<unsigned long long>(crowd_[t].served),
                  static_cast<unsigned long long>(crowd_[t].refused), crowd_[t].latencies.quantile_us(0.99));
    std::printf("]}\n");
    std::fflush(stdout);
  }

  int epoll_ = -1;
  uint16_t port_ = 0;
  bool over_ = true;
  uint64_t last_ = 0;
  std::mt19937_64 random_{7};
  std::unordered_map<uint64_t, std::unique_ptr<Line>> lines_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::array<Tenant, tenants> crowd_;
};

}  // namespace

int main() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  Crowd crowd;
  char line[128], phase[16];
  unsigned port = 0;
  double seconds = 0;
  while (std::fgets(line, sizeof line, stdin) != nullptr)
    if (std::sscanf(line, "%u %15s %lf", &port, phase, &seconds) == 3)
      crowd.run(static_cast<uint16_t>(port), phase, seconds);
}
