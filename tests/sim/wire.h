// Wire: a connection on which a client says exactly what it wants, right or wrong.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "answer.h"
#include "io/machine.h"
#include "runtime/task.h"

namespace cairn::simulator {

class Wire {
 public:
  explicit Wire(io::Machine& machine) noexcept : machine_(machine) {}

  Task<Result<>> open(Call call, io::Endpoint endpoint);
  Task<Result<>> send(Call call, std::string_view text);  // `text` outlives the call
  // The next answer, whole. Interim ones are counted and passed over, unless `stop_at_interim`: then the
  // answer has their status.
  Task<Result<Answer>> receive(Call call, http::Method method, bool stop_at_interim = false);
  // The head only: the body is left on the wire.
  Task<Result<Answer>> receive_head(Call call, http::Method method);
  // Until the peer ends its side. connection_lost: by a reset.
  Task<Result<>> wait_end(Call call);
  void shutdown_send() noexcept { stream_->shutdown_send(); }
  void close(bool reset) noexcept { stream_->close(reset); }
  bool is_open() const noexcept { return stream_ != nullptr; }
  unsigned interim() const noexcept { return interim_; }

 private:
  // More bytes into input_; false at the end of the stream.
  Task<Result<bool>> fill(Call call);

  io::Machine& machine_;
  std::unique_ptr<io::Stream> stream_;
  std::string input_;
  http::ResponseParser parser_;
  unsigned interim_ = 0;
};

}  // namespace cairn::simulator
