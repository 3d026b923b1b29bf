// H2Link: the HTTP/2 side of a client machine: the clients that share it ask on one connection at the same
// time.
//   [HL-1] What the server says is HTTP/2 as nghttp2 understands it, or the run fails.
//   [HL-2] A request is sent a second time only if it may be repeated and nothing of an answer had come: then
//         once, on a fresh connection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "caller.h"
#include "io/sim/world.h"

namespace cairn::simulator {

class H2Link {
 public:
  // `complain` is told what is wrong with what the server says. The node outlives this.
  H2Link(io::sim::Node& node, io::Endpoint endpoint, std::shared_ptr<const io::TlsClient> tls,
         std::function<void(const std::string&)> complain);
  ~H2Link();
  H2Link(const H2Link&) = delete;
  H2Link& operator=(const H2Link&) = delete;

  // Sends the request and waits for the head of the answer. Cancel: partial — the stream is reset.
  Task<Result<std::unique_ptr<Arriving>>> begin(Call call, http::ClientRequest request);
  // A connection that was made before is left.
  void renew(Instant since);
  // Each client that shares it joins before it asks. With the last one the connection ends.
  void join() noexcept { ++members_; }
  void leave();

 private:
  class Connection;
  struct Stream;
  class StreamAnswer;
  using ConnectionPtr = std::shared_ptr<Connection>;

  Task<Result<ConnectionPtr>> connect(Call call);
  Task<Result<ConnectionPtr>> make_connection(Call call);
  static Task<> read(Call call, ConnectionPtr connection);
  static Task<> write(Call call, ConnectionPtr connection);

  io::sim::Node& node_;
  io::Machine machine_;
  io::Endpoint endpoint_;
  std::shared_ptr<const io::TlsClient> tls_;
  std::function<void(const std::string&)> complain_;
  unsigned members_ = 0;
  bool connecting_ = false;
  WaitList waiting_;  // for the connection that somebody makes
  ConnectionPtr connection_;
};

}  // namespace cairn::simulator
