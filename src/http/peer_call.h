// PeerCall: a request to another service and its answer. LocalCall carries it inside the process, RemoteCall
// over a pooled connection. The caller cannot tell which.
//
// One object serves one request after the other: start(), the fields and the body, ask(), then the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/method.h"
#include "io/piece.h"
#include "io/stream.h"
#include "runtime/call.h"
#include "runtime/task.h"

namespace cairn::http {

class Conversation;

class PeerCall {
 public:
  virtual ~PeerCall() = default;

  // --- the request. `target` is in origin-form and escaped; `asker` is the peer on whose behalf the caller
  // asks.
  virtual void start(Method method, std::string_view target, const io::PeerAddress& asker) = 0;
  // Whether the asker itself came over TLS. Over a connection that is a field's to say: `Forwarded`.
  virtual void set_encrypted(bool encrypted) noexcept { (void)encrypted; }
  // The caller must not add framing fields: with one of them, or with text that would break a head, ask()
  // fails.
  virtual void add_field(std::string_view name, std::string_view value) = 0;
  // `source` outlives ask(). A source that ends before its length, or has more bytes, spoils the request.
  virtual void set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept = 0;

  // Asks the peer to go on with `protocol`, as Exchange::upgrade has it: a literal. For a GET without a body.
  virtual void ask_to_switch(std::string_view protocol) noexcept = 0;

  // --- the answer
  // Begins a request without a body, where that takes no wait. True: its answer is there, as after ask().
  // False: ask() goes on with what has begun. An error is one of ask()'s.
  virtual Result<bool> try_ask(const CallContext& context) {
    (void)context;
    return false;
  }
  // Waits for the head of the answer. The carrier sends the correlation id and the trace of the call's
  // context; the caller adds neither.
  // `invalid`: the request cannot be made. Any other error: no answer came. Cancel: partial — the peer may
  // have seen the request.
  virtual Task<Result<>> ask(Call call) = 0;
  virtual int status() const noexcept = 0;
  virtual std::string_view content_type() const noexcept = 0;
  // The length of the answer's body, or for HEAD the length that GET would have; nothing while it is unknown.
  virtual std::optional<std::uint64_t> length() const noexcept = 0;
  // f(name, value) for each field of the answer, in order, except the framing fields and the content type.
  template <class F>
  void each_field(F f) const {
    visit_fields(
        [](void* to, std::string_view name, std::string_view value) { (*static_cast<F*>(to))(name, value); },
        &f);
  }
  // The first one's value. Case does not matter.
  virtual std::optional<std::string_view> find_field(std::string_view name) const noexcept = 0;
  // The next piece of the body, empty at the end. Its memory stays valid until the next call, or as long as
  // its hold. An error is final, and later calls return it again. Cancel: partial — the rest of the answer is
  // lost.
  virtual Task<Result<io::Piece>> next(Call call) = 0;
  // The next piece if it is at hand; nullopt when next() has to be called.
  virtual std::optional<io::Piece> try_next() { return std::nullopt; }
  // The body as one piece, where that is how it is kept or how it came, instead of next(): the call is done
  // with that. The piece stays valid with its buffer or hold, and until drop().
  virtual std::optional<io::Piece> take_whole() { return std::nullopt; }
  // What the peer has agreed to go on with; nullptr if it answered as usual. The caller leads it in place of
  // next(): it is asked for what it says, and listens to what the caller has to say, both at once. The call
  // outlives both.
  virtual Conversation* conversation() noexcept = 0;
  virtual bool done() const noexcept = 0;  // every byte of the answer was given out
  // Drops the part of the answer that was not read yet. Pieces that were given out stay valid with their
  // holds.
  virtual void drop() noexcept = 0;

 protected:
  using VisitField = void (*)(void* to, std::string_view name, std::string_view value);
  virtual void visit_fields(VisitField visit, void* to) const = 0;
};

// Adds the fields that tell the callee which request its work belongs to.
void add_context(PeerCall& peer, const CallContext* context);

}  // namespace cairn::http
