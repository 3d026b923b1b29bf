// RemoteCall: a request to a service of another process, over the pooled client.
//
// A request that may be repeated, and of whose body nothing was read yet, is sent again by the policy's rules
// as long as no answer has come. With a body the policy's total time does not apply, because the source sets
// the pace: only the call's deadline does.
#pragma once

#include <memory>
#include <optional>

#include "http/client.h"
#include "http/peer_call.h"

namespace cairn::http {

class RemoteCall final : public PeerCall {
 public:
  // `client` outlives it.
  RemoteCall(Client& client, io::Endpoint endpoint, RetryPolicy policy = {})
      : client_(client), endpoint_(std::move(endpoint)), policy_(policy) {}

  void start(Method method, std::string_view target, const io::PeerAddress& asker) override;
  void add_field(std::string_view name, std::string_view value) override;
  void set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept override;

  // Errors: those of the client. A peer that cannot be reached has the side `upstream`.
  Task<Result<>> ask(Call call) override;
  int status() const noexcept override { return answer_ ? answer_->status() : 0; }
  std::string_view content_type() const noexcept override;
  std::optional<std::uint64_t> length() const noexcept override;
  std::optional<std::string_view> find_field(std::string_view name) const noexcept override;
  Task<Result<io::Piece>> next(Call call) override;
  bool done() const noexcept override { return !answer_ || answer_->done(); }
  void drop() noexcept override { answer_.reset(); }

 private:
  void visit_fields(VisitField visit, void* to) const override;

  Client& client_;
  io::Endpoint endpoint_;
  RetryPolicy policy_;
  ClientRequest request_;
  std::optional<ClientResponse> answer_;
};

}  // namespace cairn::http
