// bench_registry: closed-loop load on `cairn registry` and on etcd's JSON gateway, one program for both.
//   [BR-1] One thread, one request in flight per connection.
//   [BR-2] Every answer is read and judged by its dialogue; one that must not be ends the run with code 2.
//   [BR-3] What is counted, wall time and the CPU time of the watched process are taken at the same two
//   instants.
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "head.h"
#include "histogram.h"
#include "registry_dialogue.h"
#include "registry_fanout.h"
#include "registry_options.h"
#include "registry_wire.h"

namespace {

constexpr uint64_t stall_limit_ns = 20'000'000'000;

struct Connection {
  int fd = -1;
  std::unique_ptr<Dialogue> dialogue;
  uint64_t began = 0;
  std::string out, in;
};

class Load {
 public:
  explicit Load(RegistryOptions& options) : options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) die_errno("epoll_create1");
    connections_.resize(options_.connections);
    for (uint32_t i = 0; i < options_.connections; ++i) {
      connections_[i].fd = connect_to(options_.target, epoll_, i);
      connections_[i].dialogue = make_dialogue(options_.mode);
    }
  }

  void run() {
    last_progress_ = clock_ns();
    for (Connection& c : connections_) begin(c);
    const uint64_t warm = clock_ns() + static_cast<uint64_t>(options_.warmup * 1e9);
    while (options_.warmup > 0 && turn() < warm) continue;
    latencies_.clear();
    counted_ = refused_ = answers_ = spun_ns_ = 0;
    const Mark from = Mark::now(options_.watched);
    const uint64_t end = from.wall + static_cast<uint64_t>(options_.seconds * 1e9);
    if (options_.requests > 0)
      while (counted_ < options_.requests) turn();
    else
      while (turn() < end) continue;
    report(from, Mark::now(options_.watched));
  }

 private:
  // Awake between rounds, so that the server does not pay for waking us at each answer.
  void spin() {
    const uint64_t from = clock_ns();
    uint64_t now = from;
    while (now < from + options_.gather_us * 1000) {
      for (int i = 0; i < 32; ++i) __builtin_ia32_pause();
      now = clock_ns();
    }
    spun_ns_ += now - from;
  }

  uint64_t turn() {
    if (options_.gather_us > 0) spin();
    std::array<epoll_event, 256> events;
    const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
    if (n < 0 && errno != EINTR) die_errno("epoll_wait");
    for (int i = 0; i < n && !done(); ++i) receive(connections_[events[static_cast<size_t>(i)].data.u32]);
    const uint64_t now = clock_ns();
    if (n > 0) last_progress_ = now;
    if (now - last_progress_ > stall_limit_ns) die("no answer for 20 s");
    return now;
  }

  bool done() const { return options_.requests > 0 && counted_ >= options_.requests; }

  void begin(Connection& c) {
    c.began = clock_ns();
    ask(c);
  }
  void ask(Connection& c) {
    c.out.clear();
    c.dialogue->ask(options_.play, c.out);
    send_whole(c.fd, c.out);
  }

  void receive(Connection& c) {
    const ssize_t n = recv(c.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) die("the server closed a connection");
    std::string_view in(buffer_.data(), static_cast<size_t>(n));
    if (!c.in.empty()) in = c.in.append(in);
    Head head;
    const Parsed parsed = parse_head(in, head);
    if (parsed == Parsed::bad || (parsed == Parsed::head && !head.length)) die("unreadable head");
    if (parsed == Parsed::partial || in.size() < head.bytes + *head.length) {
      if (c.in.empty()) c.in = in;
      return;
    }
    if (in.size() > head.bytes + *head.length) die("bytes after the answer");
    head_bytes_ = head.bytes;
    body_bytes_ = *head.length;
    ++answers_;
    const Heard heard = c.dialogue->hear(options_.play, head.status, in.substr(head.bytes));
    if (heard == Heard::wrong)
      die(c.out.substr(0, c.out.find('\r')) + ": status " + std::to_string(head.status) + ": " +
          std::string(in.substr(head.bytes, 400)));
    c.in.clear();
    if (heard == Heard::on_the_way) return ask(c);
    if (heard == Heard::counted) {
      ++counted_;
      latencies_.add(clock_ns() - c.began);
    } else {
      ++refused_;
    }
    if (!done()) begin(c);
  }

  void report(const Mark& from, const Mark& to) const {
    const double seconds = static_cast<double>(to.wall - from.wall) / 1e9;
    const double count = static_cast<double>(std::max<uint64_t>(counted_, 1));
    const uint64_t own = to.own - from.own;
    std::printf(
        "{\"requests\": %llu, \"seconds\": %.6f, \"req_s\": %.2f, \"answers\": %llu, \"refused\": %llu, ",
        static_cast<unsigned long long>(counted_), seconds, static_cast<double>(counted_) / seconds,
        static_cast<unsigned long long>(answers_), static_cast<unsigned long long>(refused_));
    std::printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"head_bytes\": %zu, \"body_bytes\": %llu, ",
                latencies_.quantile_us(0.5), latencies_.quantile_us(0.99), head_bytes_,
                static_cast<unsigned long long>(body_bytes_));
    std::printf(
        "\"load_cpu_share\": %.4f, \"server_cpu_ns_per_request\": %.1f, \"server_cpu_share\": %.4f}\n",
        static_cast<double>(own - std::min(own, spun_ns_)) / 1e9 / seconds,
        static_cast<double>(to.watched - from.watched) / count,
        static_cast<double>(to.watched - from.watched) / 1e9 / seconds);
  }

  RegistryOptions& options_;
  int epoll_;
  std::vector<Connection> connections_;
  std::array<char, 32768> buffer_{};
  Histogram latencies_;
  uint64_t counted_ = 0, refused_ = 0, answers_ = 0, spun_ns_ = 0, last_progress_ = 0;
  size_t head_bytes_ = 0;
  uint64_t body_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  RegistryOptions options = parse_registry_options(argc, argv);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (options.subscribers > 0)
    Fanout(options.target, options.play, options.mode, options.subscribers, options.watched)
        .run(options.requests);
  else
    Load(options).run();
  return 0;
}
