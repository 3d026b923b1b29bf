// RouteSpec: one line of a service's table: the pattern and its methods, the capability they need, and the
// handlers.
//
//   const serve::RouteSpec routes[] = {
//       {.pattern = "/o/{address:Address}", .methods = Method::put, .summary = "Store an object",
//        .handlers = serve::staged<&StorageShard::take_body, &StorageShard::put>(),
//        .takes = serve::Takes::body, .op = "storage.put"}, …};
//
// The routes are in this table and nowhere else: a route's number is its place in it, and a route without a
// handler or a summary does not compile. The reference of a service (serve/openapi.h) is written from it.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "runtime/task.h"
#include "serve/request.h"

namespace cairn::serve {

class ServiceShard;

// How a route's requests run.
//   * `at_once` is answered on the connection's shard without a wait. It may hand a request on to a worker,
//     when it would have to wait.
//   * `queued` goes through `work` to a worker.
//   * `staged` is for bodies: the connection's own task pulls the body first, so that a slow client holds
//     neither a worker nor a place in the queue. Then the request is queued.
//   * `open` is for a request that waits for an event: a long poll, a stream of events. It is admitted like
//     any other request. From then on it counts as a connection, not in flight: it needs no worker and no
//     place in the queue. It is answered at once if it can be, or else in the connection's own task.
enum class Run : std::uint8_t { at_once, queued, staged, open };

// The handlers of a route, with the type of their shard erased. Made only by at_once(), queued(), staged()
// and open(), from member functions of the shard:
//
//   answer now    Answered (Shard::*)(Request&): fills the response, and must not wait. `Answered` is void;
//                 bool or Result<bool>, where false hands the request on; or Result<>.
//   take          Task<Result<>> (Shard::*)(Call, Request&, State&): pulls the body into memory that the
//                 service bounds. The State begins empty, and is dropped when the work has returned, or would
//                 have. Cancel: clean.
//   work          Task<Result<>> (Shard::*)(Call, Request&), with the State where there is one: the response
//                 is filled, or the error is answered. Cancel: as the route's page says.
//   wait          the same, for an open route, in the connection's task: waits, for its own shorter time
//                 (wait_open()), and answers with what it has then, or with a stream (http/sse.h). The call's
//                 deadline is open_timeout, whatever timeouts.request says. When draining begins, its waits
//                 end with `cancelled` and StopReason::draining. It may still answer with what it has; if it
//                 returns the error, the client gets `draining`. The pipeline ends a stream's source in the
//                 same way. The source may keep no view of the request. Cancel: clean.
struct Handlers {
  using Now = Result<bool> (*)(ServiceShard&, Request&);
  using Later = Task<Result<>> (*)(ServiceShard&, Call, Request&);

  Run run;
  Now now = nullptr;      // of at_once and open; false: `later` is to
  Later take = nullptr;   // of staged
  Later later = nullptr;  // none: `now` answers everything
};

namespace detail {

template <class>
struct MemberOf;
template <class S, class R, class... A>
struct MemberOf<R (S::*)(A...)> {
  using Shard = S;
};
template <class S, class R>
struct MemberOf<Task<R> (S::*)(Call, Request&)> {
  using Shard = S;
  using State = void;
};
template <class S, class R, class Kept>
struct MemberOf<Task<R> (S::*)(Call, Request&, Kept&)> {
  using Shard = S;
  using State = Kept;
};
template <auto member>
using ShardOf = typename MemberOf<decltype(member)>::Shard;
template <auto member>
using StateOf = typename MemberOf<decltype(member)>::State;

// The State of a staged request, until its work is done. Its memory is recycled like a frame's, because every
// request with a body has one.
template <class State>
struct Taken final : RequestState, PooledFrame {
  State state;
};

inline Result<bool> settle(bool answered) noexcept { return answered; }
inline Result<bool> settle(const Result<bool>& answered) noexcept { return answered; }
inline Result<bool> settle(const Result<>& answered) noexcept {
  if (!answered) return fail(answered.error());
  return true;
}

template <auto member>
Result<bool> answer_now(ServiceShard& shard, Request& request) {
  auto& self = static_cast<ShardOf<member>&>(shard);
  if constexpr (std::is_void_v<decltype((self.*member)(request))>) {
    (self.*member)(request);
    return true;
  } else {
    return settle((self.*member)(request));
  }
}

template <auto member>
Task<Result<>> take(ServiceShard& shard, Call call, Request& request) {
  auto taken = std::make_unique<Taken<StateOf<member>>>();
  StateOf<member>& state = taken->state;
  request.state = std::move(taken);
  return (static_cast<ShardOf<member>&>(shard).*member)(call, request, state);
}

template <auto member>
Task<Result<>> answer_later(ServiceShard& shard, Call call, Request& request) {
  auto& self = static_cast<ShardOf<member>&>(shard);
  if constexpr (std::is_void_v<StateOf<member>>)
    return (self.*member)(call, request);
  else
    return (self.*member)(call, request, static_cast<Taken<StateOf<member>>&>(*request.state).state);
}

}  // namespace detail

template <auto answer>
consteval Handlers at_once() {
  return {.run = Run::at_once, .now = detail::answer_now<answer>};
}
template <auto answer, auto work>
consteval Handlers at_once() {
  static_assert(std::is_void_v<detail::StateOf<work>>);
  return {.run = Run::at_once, .now = detail::answer_now<answer>, .later = detail::answer_later<work>};
}
template <auto work>
consteval Handlers queued() {
  static_assert(std::is_void_v<detail::StateOf<work>>);
  return {.run = Run::queued, .later = detail::answer_later<work>};
}
template <auto take, auto work>
consteval Handlers staged() {
  static_assert(std::same_as<detail::StateOf<take>, detail::StateOf<work>>, "the work gets what was taken");
  return {.run = Run::staged, .take = detail::take<take>, .later = detail::answer_later<work>};
}
template <auto answer>
consteval Handlers open() {
  return {.run = Run::open, .now = detail::answer_now<answer>};
}
template <auto answer, auto wait>
consteval Handlers open() {
  static_assert(std::is_void_v<detail::StateOf<wait>>);
  return {.run = Run::open, .now = detail::answer_now<answer>, .later = detail::answer_later<wait>};
}

// What a request brings with it.
enum class Takes : std::uint8_t {
  nothing,
  body  // decoded under the guard
};
// Whether a route's `op` is always required, or only where auth.reads = required.
enum class Asked : std::uint8_t { always, of_reads };

// --- for the reference of a service; no request looks at it

// One plain line, without a full stop. It cannot be left out.
struct Summary {
  consteval Summary(const char* line) : text(line) {  // NOLINT(google-explicit-constructor): it is that line
    if (text.empty() || text.ends_with('.') || text.find('\n') != std::string_view::npos)
      throw "a summary is one line without a full stop";
  }
  std::string_view text;
};
// A parameter of the query, or a field of a head. An answer always has a field that is required.
struct ParameterSpec {
  std::string_view name;
  std::string_view about;
  std::string_view kind = {};  // as in patterns (http/route.h); empty: any text
  bool required = false;
  std::uint64_t least = 0, most = 0;  // of a number; a most of 0: any
};
// A kind of event in a stream, and the schema of its data.
struct EventSpec {
  std::string_view name;
  std::string_view schema;
};
struct BodySpec {
  std::string_view type = {};    // empty: no body
  std::string_view schema = {};  // of JSON: the name of a file in docs/schemas
  std::span<const EventSpec> events = {};
};
// One way to succeed. A status with several types has a line for each.
struct AnswerSpec {
  int status;
  std::string_view about;
  BodySpec body = {};
  std::span<const ParameterSpec> fields = {};  // of its head
};

struct RouteSpec {
  std::string_view pattern;
  http::MethodSet methods;
  Summary summary;
  Handlers handlers;
  Takes takes = Takes::nothing;
  std::string_view op = {};  // the capability asked for; empty: none
  Asked asked = Asked::always;
  // What its requests store at least, even if they do not say how much: a capability for less is refused.
  std::uint64_t stores_least = 0;
  // For the reference, as the summary.
  std::span<const ParameterSpec> query = {};  // as the handler's allow_only() has them
  std::span<const ParameterSpec> fields = {};
  std::span<const BodySpec> bodies = {};  // the types of body it takes; empty, if it takes a body: any bytes
  bool needs_body = false;                // an empty body is refused
  std::span<const AnswerSpec> answers = {};
  std::string_view op_of_handler = {};  // a capability that the handler itself asks for
  bool is_passed_on = false;            // another service asks for what it needs
};

}  // namespace cairn::serve
