// RemoteCall: a request to a service of another process, over the pooled client.
//
// A request that may be repeated, and of whose body nothing was read yet, is sent again by the policy's rules
// as long as no answer has come. With a body the policy's total time does not apply, because the source sets
// the pace: only the call's deadline does.
#pragma once

#include <memory>
#include <optional>

#include "http/client.h"
#include "http/conversation.h"
#include "http/peer_call.h"

namespace cairn::http {

class RemoteCall final : public PeerCall {
 public:
  // `client` outlives it.
  RemoteCall(Client& client, io::Endpoint endpoint, RetryPolicy policy = {})
      : client_(client), policy_(policy) {
    request_.endpoint = std::move(endpoint);
  }

  void start(Method method, std::string_view target, const io::PeerAddress& asker) override;
  void add_field(std::string_view name, std::string_view value) override;
  void set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept override;
  // Without a Sec-WebSocket-Key of the caller's, the call adds one, and keeps the peer's answer to it.
  void ask_to_switch(std::string_view protocol) noexcept override { request_.upgrade = protocol; }

  // Errors: those of the client. A peer that cannot be reached has the side `upstream`.
  Task<Result<>> ask(Call call) override;
  int status() const noexcept override { return answer_ ? answer_->status() : 0; }
  std::string_view content_type() const noexcept override;
  std::optional<std::uint64_t> length() const noexcept override;
  std::optional<std::string_view> find_field(std::string_view name) const noexcept override;
  Task<Result<io::Piece>> next(Call call) override;
  std::optional<io::Piece> take_whole() override;
  // Draining ends what it says to the peer, and so, in a moment, what the peer says.
  Conversation* conversation() noexcept override { return conversation_ ? &*conversation_ : nullptr; }
  bool done() const noexcept override { return !answer_ || answer_->done(); }
  void drop() noexcept override {
    conversation_.reset();
    answer_.reset();
  }

 private:
  void visit_fields(VisitField visit, void* to) const override;

  // The bytes of both directions, as they come.
  class Passed final : public Conversation {
   public:
    explicit Passed(ClientResponse& answer) noexcept : answer_(answer) {}
    Task<Result<io::Piece>> next(Call call) override;
    Task<> listen(Call call, RequestBody& arriving) override;
    void drain() noexcept override { answer_.end_saying(); }

   private:
    ClientResponse& answer_;
  };
  // `upstream`: the peer agreed in a way that it must not.
  Result<> begin_conversation();
  bool is_shown(FieldName name) const noexcept;

  Client& client_;
  RetryPolicy policy_;
  ClientRequest request_;
  std::string own_key_;   // that the call has added
  bool has_key_ = false;  // the caller has
  std::optional<ClientResponse> answer_;
  std::optional<Passed> conversation_;
};

}  // namespace cairn::http
