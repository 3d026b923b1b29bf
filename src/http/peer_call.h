// PeerCall: a request to another service and its answer, whatever carries it: LocalCall inside the process,
// RemoteCall over a pooled connection. The caller cannot tell which.
//
// It is used for one request after the other: start, the fields and the body, ask, what was answered.
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

class PeerCall {
 public:
  virtual ~PeerCall() = default;

  // --- what is asked. `target` is in origin-form and escaped; `asker` is who is behind it.
  virtual void start(Method method, std::string_view target, const io::PeerAddress& asker) = 0;
  // Framing fields are not the caller's: with one of them, or with text that would break a head, ask() fails.
  virtual void add_field(std::string_view name, std::string_view value) = 0;
  // It outlives ask(). A source that ends before its length, or has more, spoils the request.
  virtual void set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept = 0;

  // --- what is answered
  // Waits for the head of the answer. The correlation id and the trace of the call's context travel on; the
  // caller adds neither.
  // `invalid`: the request cannot be made; any other error: nothing is answered. Cancel: partial — the peer
  // may have seen the request.
  virtual Task<Result<>> ask(Call call) = 0;
  virtual int status() const noexcept = 0;
  virtual std::string_view content_type() const noexcept = 0;
  // Of the body that comes, or would to a GET; nothing when nobody knows yet.
  virtual std::optional<std::uint64_t> length() const noexcept = 0;
  // f(name, value) for each field of the answer, in order, but for those of the framing and the content type.
  template <class F>
  void each_field(F f) const {
    visit_fields(
        [](void* to, std::string_view name, std::string_view value) { (*static_cast<F*>(to))(name, value); },
        &f);
  }
  // The first one's value. Case does not matter.
  virtual std::optional<std::string_view> find_field(std::string_view name) const noexcept = 0;
  // The next piece, empty at the end. Its memory stays until the next step, or as long as its hold. An error
  // is final, and told again. Cancel: partial — the rest of the answer is lost.
  virtual Task<Result<io::Piece>> next(Call call) = 0;
  virtual bool done() const noexcept = 0;  // every byte of it was given out
  // Lets go of whatever is not read yet. The pieces that were given out stay with their holds.
  virtual void drop() noexcept = 0;

 protected:
  using VisitField = void (*)(void* to, std::string_view name, std::string_view value);
  virtual void visit_fields(VisitField visit, void* to) const = 0;
};

// The fields by which a callee knows what it is a part of.
void add_context(PeerCall& peer, const Call& call);

}  // namespace cairn::http
