// LocalCall: a request to an answerer of the same shard. It is an exchange like any other, but without a
// connection: there is no socket, and bodies are not copied.
//   [LC-1] The head is read by the strict parser, with the answerer's limits: an answerer sees no request
//         here that a stranger could not have sent.
//   [LC-2] Bodies are passed on in the blocks in which they arrived. Bytes outside the slab's blocks (memory
//         with another owner, a file) are copied into a request's body, and counted. Nothing is copied in an
//         answer.
//   [LC-3] A stop of the caller's call ends the waits of the handler, and those of a streamed answer.
//   [LC-4] The answerer is told of the end exactly once: when the answer was read to its end, or at the
//         latest when the call is dropped. The answer counts as complete if every byte was given out.
// A call that is reused for the next request allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/answerer.h"
#include "http/h1/parser.h"
#include "http/peer_call.h"
#include "io/machine.h"

namespace cairn::http {

class LocalCall final : public PeerCall {
 public:
  LocalCall(io::Machine& machine, Answerer& answerer) : LocalCall(machine.shard, machine.slab, answerer) {}
  LocalCall(Shard& shard, Slab& slab, Answerer& answerer);
  ~LocalCall() override;
  LocalCall(const LocalCall&) = delete;
  LocalCall& operator=(const LocalCall&) = delete;

  void start(Method method, std::string_view target, const io::PeerAddress& asker) override;
  void set_encrypted(bool encrypted) noexcept override { exchange_.encrypted = encrypted; }
  void add_field(std::string_view name, std::string_view value) noexcept override;
  // If the source ends before its length, or has more bytes, the handler gets `malformed`. The body is gone
  // by the time the answer's body is read, so a handler that reads it only then gets an error.
  void set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept override;

  void ask_to_switch(std::string_view protocol) noexcept override { exchange_.upgrade = protocol; }

  Result<bool> try_ask(const CallContext& context) override;
  // `cancelled`: the caller left. `timeout`: its deadline has passed, and an answer that came after it is
  // dropped, as over a connection. Cancel: partial — the handler has seen the request, and was stopped at its
  // wait.
  Task<Result<>> ask(Call call) override;
  int status() const noexcept override { return exchange_.response.status; }
  std::string_view content_type() const noexcept override { return exchange_.response.content_type; }
  std::optional<std::uint64_t> length() const noexcept override;
  std::optional<std::string_view> find_field(std::string_view name) const noexcept override {
    return exchange_.response.fields.find(name);
  }
  // An error: the body ended before its length, or its source failed. Cancel: partial — the answerer is told
  // that the answer was not read to its end.
  Task<Result<io::Piece>> next(Call call) override;
  std::optional<io::Piece> try_next() override;
  std::optional<io::Piece> take_whole() override;
  // Its listener pulls the body that the caller gives it. It counts as complete, however it ends.
  Conversation* conversation() noexcept override {
    return state_ == State::answered ? exchange_.response.conversation : nullptr;
  }
  bool done() const noexcept override { return !failure_ && (state_ == State::idle || is_read()); }
  void drop() noexcept override;

  std::uint64_t copied() const noexcept { return body_.copied; }

 private:
  enum class State : std::uint8_t { idle, begun, answered };
  // The caller's source, as the handler pulls it.
  struct Body final : RequestBody {
    explicit Body(Slab& of) noexcept : slab(of) {}
    void start(io::BodySource* from, std::optional<std::uint64_t> size) noexcept;
    // Lets go of the caller's source, which may end now.
    void let_go() noexcept;
    Task<Result<Buffer>> pull(Call call) override;
    // Copies the next part of `piece`, which was not in a block.
    Task<Result<Buffer>> copy(Call call);

    Slab& slab;
    io::BodySource* source = nullptr;
    std::optional<std::uint64_t> left;  // none: until the source ends
    io::Piece piece;                    // the rest of a piece that is being copied
    std::uint64_t copied = 0;
  };

  void visit_fields(VisitField visit, void* to) const override {
    exchange_.response.fields.each(
        [&](std::string_view name, std::string_view value) { visit(to, name, value); });
  }
  Result<> read_head();
  Result<> begin(const CallContext* context);
  Result<> settle();
  void answer_failure();
  io::Piece whole() noexcept;
  Result<io::Piece> accept(io::Piece piece);
  bool sends_body() const noexcept;
  bool is_read() const noexcept;
  Error break_off(const Error& why) noexcept;
  Task<Result<io::Piece>> pull(Call call);
  void finish(bool complete) noexcept;

  Shard& shard_;
  Answerer& answerer_;
  State state_ = State::idle;
  Answerer::Next next_ = Answerer::Next::answered;  // what the answerer said of the head
  bool invalid_ = false;
  Method method_ = Method::get;
  std::string target_, text_;
  FieldList asked_;
  io::BodySource* source_ = nullptr;
  std::optional<std::uint64_t> size_;
  RequestParser parser_;
  Body body_;
  std::uint64_t left_ = 0;        // of an answer with a length
  std::optional<Error> failure_;  // of the answer's body
  Exchange exchange_;
};

}  // namespace cairn::http
