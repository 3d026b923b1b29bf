// For tests: a server of a simulated world that says what its script says, well or badly.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::gateway {

class ScriptedUpstream {
 public:
  struct Reply {
    std::string bytes = {};
    enum class Then : std::uint8_t { keep, close, reset } then = Then::keep;
    Duration after = {};     // before the bytes
    std::string later = {};  // more bytes
    Duration pause = {};     // before these
  };
  // Called with what a connection has sent since its last reply, each time more has come; nothing: it waits
  // for more.
  using Script = std::function<std::optional<Reply>(const std::string& got)>;

  ScriptedUpstream(io::sim::World& world, io::sim::Node& node, std::uint16_t port, Script script)
      : script_(std::move(script)), node_(node) {
    ShardScope here(node.shard());
    auto made = node.machine().network.listen({"behind", port, {}});
    CHECK(made.has_value());
    listener_ = std::move(*made);
    node.scope().spawn("accept", accept(node.scope().call()));
    (void)world;
  }
  ScriptedUpstream(const ScriptedUpstream&) = delete;
  ScriptedUpstream& operator=(const ScriptedUpstream&) = delete;

  void set_script(Script script) { script_ = std::move(script); }
  // As if the process were gone: nobody can connect.
  void stop_listening() {
    ShardScope here(node_.shard());
    listener_->close();
  }

  unsigned connections = 0;
  unsigned gone = 0;              // connections that the gateway has ended or broken
  std::deque<std::string> asked;  // what each reply was given for
  std::string last() const { return asked.empty() ? std::string() : asked.back(); }

 private:
  Task<> accept(Call call) {
    for (;;) {
      if (!co_await listener_->acceptable.wait(call)) co_return;
      io::Listener::Accepted one = listener_->try_accept();
      if (one.status == io::IoStatus::failed) co_return;
      if (one.status != io::IoStatus::done) continue;
      ++connections;
      node_.scope().spawn("line", talk(call, std::move(one.stream)));
    }
  }
  Task<> talk(Call call, std::unique_ptr<io::Stream> stream) {
    std::string got;
    std::array<std::byte, 4096> room;
    for (;;) {
      if (!co_await stream->readable.wait(call)) co_return;
      const io::Io read = stream->try_read(room);
      if (read.status == io::IoStatus::would_block) continue;
      if (read.status != io::IoStatus::done) {
        ++gone;
        co_return;
      }
      got += as_text({room.data(), read.count});
      const auto reply = script_(got);
      if (!reply) continue;
      asked.push_back(std::exchange(got, {}));
      if (!co_await say(call, stream.get(), *reply)) co_return;
    }
  }
  Task<bool> say(Call call, io::Stream* stream, Reply reply) {
    if (reply.after.ns > 0) (void)co_await sleep_for(call, reply.after);
    if (!co_await write(call, stream, reply.bytes)) co_return false;
    if (reply.pause.ns > 0) (void)co_await sleep_for(call, reply.pause);
    if (!co_await write(call, stream, reply.later)) co_return false;
    if (reply.then != Reply::Then::keep) stream->close(reply.then == Reply::Then::reset);
    co_return reply.then == Reply::Then::keep;
  }
  Task<bool> write(Call call, io::Stream* stream, std::string bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const iovec rest{bytes.data() + at, bytes.size() - at};
      const io::Io sent = stream->try_writev({&rest, 1});
      if (sent.status == io::IoStatus::done) {
        at += sent.count;
        continue;
      }
      if (sent.status != io::IoStatus::would_block || !co_await stream->writable.wait(call)) {
        ++gone;
        co_return false;
      }
    }
    co_return true;
  }

  Script script_;
  io::sim::Node& node_;
  std::unique_ptr<io::Listener> listener_;
};

// Replies to every head; a body is not waited for.
inline ScriptedUpstream::Script at_head(ScriptedUpstream::Reply reply) {
  return [reply](const std::string& got) -> std::optional<ScriptedUpstream::Reply> {
    if (got.find("\r\n\r\n") == std::string::npos) return std::nullopt;
    return reply;
  };
}
// Replies when a body of so many bytes has come, behind the head.
inline ScriptedUpstream::Script at_body(std::size_t size, ScriptedUpstream::Reply reply) {
  return [size, reply](const std::string& got) -> std::optional<ScriptedUpstream::Reply> {
    const std::size_t end = got.find("\r\n\r\n");
    if (end == std::string::npos || got.size() < end + 4 + size) return std::nullopt;
    return reply;
  };
}

}  // namespace cairn::gateway
