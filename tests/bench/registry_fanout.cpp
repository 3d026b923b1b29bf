#include "registry_fanout.h"

#include <algorithm>
#include <utility>

#include "head.h"

namespace {

constexpr uint64_t stall_limit_ns = 20'000'000'000;
constexpr uint64_t pause_ns = 5'000'000;  // between changes: what trails behind one does not burden the next
constexpr uint64_t warm_rounds = 3;

}  // namespace

Fanout::Fanout(const sockaddr_in& target, Play& play, std::string_view mode, uint32_t subscribers,
               std::vector<clockid_t> watched)
    : play_(play),
      etcd_(mode.starts_with("etcd")),
      watched_(std::move(watched)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      subscribers_(subscribers),
      dialogue_(make_dialogue(mode)) {
  if (epoll_ < 0) die_errno("epoll_create1");
  writer_ = connect_to(target, epoll_, subscribers);
  if (etcd_) change();  // so that there is something to watch
  subscribe(target);
}

void Fanout::subscribe(const sockaddr_in& target) {
  const std::string body = R"({"create_request":{"key":"cmVnaXN0cnktaGVhZA=="}})";
  const std::string request =
      etcd_
          ? "POST /v3/watch HTTP/1.1\r\nHost: " + play_.host +
                "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body
          : "GET /registry/stream HTTP/1.1\r\nHost: " + play_.host + "\r\nAccept: text/event-stream\r\n\r\n";
  const uint64_t limit = clock_ns() + stall_limit_ns;
  for (uint32_t i = 0; i < subscribers_.size(); ++i) {
    subscribers_[i].fd = connect_to(target, epoll_, i);
    send_whole(subscribers_[i].fd, request);
    while (i + 1 - ready_ > 64 && clock_ns() < limit) turn();
  }
  while (ready_ < subscribers_.size())
    if (clock_ns() < limit)
      turn();
    else
      die("only " + std::to_string(ready_) + " subscribers were taken");
}

void Fanout::run(uint64_t rounds) {
  Mark from;
  uint64_t pauses = 0;
  for (uint64_t i = 0; i < warm_rounds + rounds; ++i) {
    if (i == warm_rounds) {
      for (Histogram* histogram : {&latencies_, &acknowledged_, &last_}) histogram->clear();
      from = Mark::now(watched_);
      pauses = 0;
    }
    change();
    const uint64_t rest = clock_ns() + pause_ns;
    while (clock_ns() < rest) turn();
    ++pauses;
  }
  const Mark to = Mark::now(watched_);
  const double seconds = static_cast<double>(to.wall - from.wall - pauses * pause_ns) / 1e9;
  const double events = static_cast<double>(rounds * subscribers_.size());
  std::printf("{\"requests\": %.0f, \"rounds\": %llu, \"seconds\": %.6f, \"req_s\": %.1f, ", events,
              static_cast<unsigned long long>(rounds), seconds, events / seconds);
  std::printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"acknowledged_p50_us\": %.1f, \"last_p50_us\": %.1f, ",
              latencies_.quantile_us(0.5), latencies_.quantile_us(0.99), acknowledged_.quantile_us(0.5),
              last_.quantile_us(0.5));
  std::printf("\"head_bytes\": 0, \"load_cpu_share\": %.4f, ",
              static_cast<double>(to.own - from.own) / 1e9 / seconds);
  std::printf("\"server_cpu_ns_per_request\": %.1f, \"server_cpu_share\": %.4f}\n",
              static_cast<double>(to.watched - from.watched) / events,
              static_cast<double>(to.watched - from.watched) / 1e9 / seconds);
}

// Everything up to the request that has the effect is said before the clock starts.
void Fanout::change() {
  told_ = 0;
  counted_ = false;
  const uint64_t limit = clock_ns() + stall_limit_ns;
  while (!counted_ || told_ < ready_) {
    std::string request;
    const bool effect = dialogue_->at_effect();
    dialogue_->ask(play_, request);
    answered_ = false;
    if (effect) began_ = clock_ns();
    send_whole(writer_, request);
    while (!answered_ || (counted_ && told_ < ready_)) {
      turn();
      if (clock_ns() > limit)
        die("only " + std::to_string(told_) + " of " + std::to_string(ready_) + " subscribers were told");
    }
  }
  if (ready_ > 0) last_.add(clock_ns() - began_);
  began_ = 0;
  for (const Subscriber& subscriber : subscribers_) before_ = std::max(before_, subscriber.known);
}

void Fanout::turn() {
  std::array<epoll_event, 256> events;
  const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 1);
  if (n < 0 && errno != EINTR) die_errno("epoll_wait");
  for (int i = 0; i < n; ++i) {
    const uint32_t number = events[static_cast<size_t>(i)].data.u32;
    if (number == subscribers_.size())
      receive_answer();
    else
      receive(subscribers_[number]);
  }
}

void Fanout::receive_answer() {
  const ssize_t n = recv(writer_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n <= 0) die("the server closed the writer's connection");
  answer_.append(buffer_.data(), static_cast<size_t>(n));
  Head head;
  if (parse_head(answer_, head) != Parsed::head || answer_.size() < head.bytes + head.length.value_or(0))
    return;
  const Heard heard = dialogue_->hear(play_, head.status, std::string_view(answer_).substr(head.bytes));
  if (heard == Heard::wrong || heard == Heard::refused)
    die("status " + std::to_string(head.status) + ": " + answer_.substr(head.bytes, 400));
  answered_ = true;
  counted_ = heard == Heard::counted;
  if (counted_) acknowledged_.add(clock_ns() - began_);
  answer_.clear();
}

void Fanout::receive(Subscriber& subscriber) {
  const ssize_t n = recv(subscriber.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) die("the server closed a subscriber's connection");
  std::string_view in(buffer_.data(), static_cast<size_t>(n));
  if (!subscriber.partial.empty()) in = subscriber.partial.append(in);
  for (size_t eol = 0; (eol = in.find('\n')) != std::string_view::npos; in.remove_prefix(eol + 1)) {
    const std::string_view line = in.substr(0, eol);
    if (line.starts_with("HTTP/1.1 ") && !line.starts_with("HTTP/1.1 200 ")) die(std::string(line));
    const uint64_t change = number_in(line);
    if (change == 0) continue;
    if (subscriber.known == 0) {
      ++ready_;
    } else if (began_ != 0 && change > before_) {
      latencies_.add(clock_ns() - began_);
      ++told_;
    }
    if (change <= subscriber.known) die("a change was told twice");
    subscriber.known = change;
  }
  subscriber.partial = std::string(in);
}

// The change that a line tells of, counted from 1: a version is one less than its count. 0: the line tells of
// none. The line with which a stream begins names the present.
uint64_t Fanout::number_in(std::string_view line) const {
  if (etcd_) {
    if (line.find(R"("created":true)") != std::string_view::npos)
      return number_after(line, R"("revision":")");
    return line.find(R"("events":[)") == std::string_view::npos ? 0
                                                                : number_after(line, R"("mod_revision":")");
  }
  if (!line.starts_with("data:") || line.find(R"("version":)") == std::string_view::npos) return 0;
  return number_after(line, R"("version":)") + 1;
}
