// WireBody: a request's body as an HTTP/1.1 connection reads it. The first pull sends `100 Continue` to a
// client that waits for it.
#pragma once

#include "http/h1/body_pace.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"
#include "http/request_body.h"

namespace cairn::http {

class Connection;

class WireBody final : public RequestBody {
 public:
  void start(Connection& connection, const RequestParser& parsed) noexcept;
  void clear() noexcept;
  // From now on the body is what arrives on the connection, up to its end.
  void open() noexcept;

 private:
  friend class Connection;
  Task<Result<Buffer>> pull(Call call) override;
  Task<Result<Buffer>> pull_slice(Call call);
  Task<Result<Buffer>> continue_and_pull(Call call);

  Connection* connection_ = nullptr;
  BodyKind kind_ = BodyKind::none;
  bool expects_continue_ = false;
  std::uint64_t left_ = 0;  // of a body with a length
  ChunkedDecoder chunks_;
  BodyPace pace_;
};

}  // namespace cairn::http
