// LocalCall: a request to an answerer of the same shard. It is an exchange like any other, carried by
// nothing: no socket, no copy of a body.
//   [L-1] The head is read by the strict parser: an answerer sees no request here that a stranger could not
//         have sent.
//   [L-2] Bodies pass in the blocks that they came in. What is not in a block of the slab (memory that
//   somebody
//         else owns, a file) is copied on its way in, and counted; on its way out nothing is.
//   [L-3] A stop of the caller's call ends the waits of the handler, and those of a streamed answer.
//   [L-4] The answerer is told of the end exactly once: when the answer was read to its end, or at the latest
//         when the call is dropped.
// Used again for the next request, it allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/answerer.h"
#include "http/h1/parser.h"
#include "io/machine.h"

namespace cairn::http {

class LocalCall {
 public:
  LocalCall(io::Machine& machine, Answerer& answerer, HeadLimits limits = {});
  ~LocalCall();
  LocalCall(const LocalCall&) = delete;
  LocalCall& operator=(const LocalCall&) = delete;

  // --- what is asked. `target` is in origin-form and escaped; `asker` is who is behind it.
  void start(Method method, std::string_view target, const io::PeerAddress& asker);
  // Framing fields are not the caller's: with one of them, or with text that would break a head, ask() fails.
  void add_field(std::string_view name, std::string_view value) noexcept;
  // It outlives the call. A source that ends before its length, or has more, is `malformed` to the handler.
  void set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept;

  // --- what is answered
  // Waits for the head of the answer. `invalid`: the request cannot be made; `cancelled`: the caller left,
  // and nothing is answered. Cancel: partial — the handler has seen the request, and was stopped where it
  // waited.
  Task<Result<>> ask(Call call);
  int status() const noexcept { return exchange_.response.status; }
  const FieldList& fields() const noexcept { return exchange_.response.fields; }
  std::string_view content_type() const noexcept { return exchange_.response.content_type; }
  // Of the body that comes, or would to a GET; nothing when nobody knows yet.
  std::optional<std::uint64_t> length() const noexcept;
  // The next piece, empty at the end. Its memory stays until the next start(), or as long as its hold. An
  // error: the body ended before its length, or its source failed. It is final. Cancel: partial — the rest
  // of the answer is lost, and the answerer is told so.
  Task<Result<io::Piece>> next(Call call);
  bool done() const noexcept { return state_ == State::idle; }

  std::uint64_t copied() const noexcept { return body_.copied; }

 private:
  enum class State : std::uint8_t { idle, begun, answered };
  // The caller's source, as the handler pulls it.
  struct Body final : RequestBody {
    explicit Body(Slab& of) noexcept : slab(of) {}
    void start(io::BodySource* from, std::optional<std::uint64_t> size) noexcept;
    Task<Result<Buffer>> pull(Call call) override;
    // A part of `piece` that was not in a block.
    Task<Result<Buffer>> copy(Call call);

    Slab& slab;
    io::BodySource* source = nullptr;
    std::optional<std::uint64_t> left;  // none: until the source ends
    io::Piece piece;                    // what is left of one that is copied
    std::uint64_t copied = 0;
  };

  Result<> read_head();
  void answer_failure();
  bool sends_body() const noexcept;
  void finish(bool complete);

  io::Machine& machine_;
  Answerer& answerer_;
  State state_ = State::idle;
  bool invalid_ = false;
  Method method_ = Method::get;
  std::string target_, text_;
  FieldList asked_;
  io::BodySource* source_ = nullptr;
  std::optional<std::uint64_t> size_;
  RequestParser parser_;
  Body body_;
  std::uint64_t left_ = 0;  // of an answer with a length
  Exchange exchange_;
};

}  // namespace cairn::http
