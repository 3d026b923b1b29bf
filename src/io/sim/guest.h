// For tests: a client of a simulated world that speaks bytes. It writes and reads between the world's steps,
// so that a test decides which bytes are sent, when, and whether the guest reads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/sim/world.h"
#include "io/tls_stream.h"

namespace cairn::io::sim {

// One HTTP answer as a client would read it.
struct Answer {
  int status = 0;  // 0: none came
  std::string head;
  std::string body;
  bool whole = false;  // up to where its framing says it ends

  // The value of a field line, or nothing.
  std::optional<std::string> field(std::string_view name) const {
    const std::string line = "\r\n" + std::string(name) + ": ";
    const std::size_t at = head.find(line);
    if (at == std::string::npos) return std::nullopt;
    const std::size_t begin = at + line.size();
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class Guest {
 public:
  // Connects; the world runs until it is. With `tls` it also shakes hands, with a peer called as the
  // endpoint.
  Guest(World& world, Node& from, Endpoint to, std::shared_ptr<const TlsClient> tls = nullptr)
      : world_(world) {
    {
      ShardScope here(from.shard());
      from.scope().spawn("guest", dial(from.scope().call(), from, std::move(to), std::move(tls)));
    }
    world_.run_until([&] { return dialled_; });
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  bool connected() const noexcept { return stream_ != nullptr; }
  bool ended() const noexcept { return ended_; }    // the peer sent its end
  bool broken() const noexcept { return broken_; }  // reset
  std::size_t pieces() const noexcept { return pieces_; }
  std::size_t unsent() const noexcept { return to_send_.size(); }
  const std::string& got() const noexcept { return got_; }  // and not yet taken as an answer
  std::string take_all() noexcept { return std::exchange(got_, {}); }
  bool reading = true;

  void send(std::string_view bytes) {
    to_send_ += bytes;
    pump();
  }
  // Reads up to `count` bytes that are here, whether `reading` or not.
  void take(std::size_t count) {
    std::array<std::byte, 4096> room;
    while (count > 0 && !ended_ && !broken_ && stream_->readable.ready()) {
      const Io read = stream_->try_read(MutableByteView(room).first(std::min(count, room.size())));
      if (read.status == IoStatus::done) {
        got_ += as_text({room.data(), read.count});
        count -= read.count;
      }
      ended_ = read.status == IoStatus::eof;
      broken_ = read.status == IoStatus::failed;
    }
  }
  void shutdown_send() { stream_->shutdown_send(); }
  void close(bool reset = false) { stream_->close(reset); }

  template <class Done>
  bool until(Done done, Duration within = Duration::seconds(3600)) {
    return world_.run_until(
        [&] {
          pump();
          return done();
        },
        within);
  }
  bool until_ended(Duration within = Duration::seconds(3600)) {
    return until([&] { return ended_ || broken_; }, within);
  }
  void run_for(Duration span) {
    const Instant end = world_.now() + span;
    until([] { return false; }, span);
    world_.run_until(end);
    pump();
  }

  // The next answer: complete, or the part that had come when the connection ended or the time was up.
  Answer answer(bool head_only = false, Duration within = Duration::seconds(3600)) {
    Answer next;
    std::size_t used = 0;
    until([&] { return parse(next, used, head_only) || ended_ || broken_; }, within);
    got_.erase(0, used);
    return next;
  }
  Answer ask(std::string_view request) {
    send(request);
    return answer();
  }

 private:
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): nodes outlive their tasks
  Task<> dial(Call call, Node& from, Endpoint to, std::shared_ptr<const TlsClient> tls) {
    Machine machine = from.machine();
    auto made = co_await machine.network.connect(call, to);
    if (made && tls)
      made = co_await connect_tls(call, tls, &machine.shard, &machine.slab, std::move(*made), to.host);
    if (made) stream_ = std::move(*made);
    dialled_ = true;
  }

  void pump() {
    if (stream_ == nullptr) return;
    while (!to_send_.empty() && stream_->writable.ready()) {
      const iovec all{to_send_.data(), to_send_.size()};
      const Io sent = stream_->try_writev({&all, 1});
      if (sent.status != IoStatus::done) break;
      to_send_.erase(0, sent.count);
    }
    std::array<std::byte, 4096> room;
    while (reading && !ended_ && !broken_ && stream_->readable.ready()) {
      const Io read = stream_->try_read(room);
      if (read.status == IoStatus::done) {
        got_ += as_text({room.data(), read.count});
        if (read.count < room.size()) ++pieces_;
      }
      ended_ = read.status == IoStatus::eof;
      broken_ = read.status == IoStatus::failed;
    }
  }

  // True when a whole answer is in got_; `used` is its length.
  bool parse(Answer& next, std::size_t& used, bool head_only) const {
    const std::size_t end = got_.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    next.head = got_.substr(0, end + 2);
    next.status = std::stoi(next.head.substr(9, 3));
    used = end + 4;
    next.body.clear();
    const std::string_view rest = std::string_view(got_).substr(used);
    if (head_only || next.status < 200 || next.status == 204 || next.status == 304) return next.whole = true;
    if (next.field("Transfer-Encoding")) return next.whole = parse_chunks(rest, next, used);
    const auto length = next.field("Content-Length");
    const std::size_t size = length ? std::stoul(*length) : std::string::npos;
    next.body = rest.substr(0, size);
    used += next.body.size();
    return next.whole = next.body.size() == size || (!length && ended_);
  }
  static bool parse_chunks(std::string_view rest, Answer& next, std::size_t& used) {
    for (std::size_t at = 0;;) {
      const std::size_t line = rest.find("\r\n", at);
      if (line == rest.npos) return false;
      const std::size_t size = std::stoul(std::string(rest.substr(at, line - at)), nullptr, 16);
      at = line + 2;
      if (rest.size() < at + size + 2) return false;
      next.body += rest.substr(at, size);
      at += size + 2;
      if (size != 0) continue;
      used += at;
      return true;
    }
  }

  World& world_;
  bool dialled_ = false;
  std::unique_ptr<Stream> stream_;
  std::string to_send_;
  std::string got_;
  std::size_t pieces_ = 0;
  bool ended_ = false;
  bool broken_ = false;
};

}  // namespace cairn::io::sim
