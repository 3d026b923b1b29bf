#include "http/local_call.h"

#include <algorithm>
#include <cstring>

#include "http/h1/framing.h"

namespace cairn::http {
namespace {

constexpr Error source_failed(ErrorCode::upstream, "the source of an answer failed");

}  // namespace

// --- the body that is sent

void LocalCall::Body::start(io::BodySource* from, std::optional<std::uint64_t> size) noexcept {
  source = from;
  left = size;
  piece = {};
  reset(from == nullptr || size == 0);
}

void LocalCall::Body::let_go() noexcept {
  source = nullptr;
  piece = {};
}

Task<Result<Buffer>> LocalCall::Body::pull(Call call) {
  if (source == nullptr) co_return fail(ErrorCode::malformed, "the body was let go", Side::client);
  if (piece.empty()) {
    std::optional<io::Piece> next = source->try_next();
    if (!next) {
      CO_TRY(next, co_await source->next(call));
    }
    piece = std::move(*next);
    const std::uint64_t size = piece.size();
    if (size == 0) {
      finish();
      if (left.value_or(0) != 0)
        co_return fail(ErrorCode::malformed, "the body ended before its length", Side::client);
      co_return Buffer();
    }
    if (left && size > *left)
      co_return fail(ErrorCode::malformed, "the body goes on behind its length", Side::client);
  }
  Buffer slice;
  if (piece.buffer) {
    slice = std::move(piece.buffer);
    piece = {};
  } else {
    CO_TRY(slice, co_await copy(call));
  }
  if (left) {
    *left -= slice.size();
    if (*left == 0) finish();
  }
  co_return slice;
}

Task<Result<Buffer>> LocalCall::Body::copy(Call call) {
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), Slab::large - 64));
  Buffer slice = slab.take(size);
  if (piece.is_file()) {
    CO_TRY(slice, co_await piece.file->read(call, piece.offset, size, std::move(slice)));
    if (slice.empty()) co_return fail(ErrorCode::io_failed, "a file is shorter than was said");
    piece.offset += slice.size();
    piece.count -= slice.size();
  } else {
    std::memcpy(slice.room().data(), piece.bytes.data(), size);
    slice.fill(size);
    piece.bytes = piece.bytes.subspan(size);
  }
  copied += slice.size();
  if (piece.empty()) piece = {};
  co_return slice;
}

// --- the request

LocalCall::LocalCall(Shard& shard, Slab& slab, Answerer& answerer)
    : shard_(shard), answerer_(answerer), body_(slab), exchange_(parser_.head, body_) {
  exchange_.inside = true;
}

LocalCall::~LocalCall() { finish(is_read()); }

void LocalCall::drop() noexcept {
  finish(is_read());
  failure_.reset();
  exchange_.response.file.reset();
}

void LocalCall::start(Method method, std::string_view target, const io::PeerAddress& asker) {
  drop();
  exchange_.clear();
  parser_.set_limits(answerer_.head_limits());
  parser_.reset();
  method_ = method;
  target_ = target;
  asked_.reset();
  invalid_ = false;
  source_ = nullptr;
  size_.reset();
  exchange_.peer = asker;
}

void LocalCall::add_field(std::string_view name, std::string_view value) noexcept {
  invalid_ = invalid_ || is_framing(find_field_name(name)) || !asked_.add(name, value);
}

void LocalCall::set_body(io::BodySource& source, std::optional<std::uint64_t> length) noexcept {
  source_ = &source;
  size_ = length;
}

namespace {

bool is_over_limit(const Error& error) noexcept {
  return error.code == ErrorCode::headers_too_large || error.code == ErrorCode::uri_too_long;
}

}  // namespace

// The request as it would be on the wire, for the parser. Its views point into this text until the end.
Result<> LocalCall::read_head() {
  for (const char c : target_) invalid_ = invalid_ || !is_target_character(c);
  if (invalid_) return fail(ErrorCode::invalid, "not a request that could be sent");
  text_.clear();
  text_.append(name_of(method_)).append(" ").append(target_).append(" HTTP/1.1\r\n");
  if (!asked_.find("Host")) text_.append("Host: localhost\r\n");
  text_.append(asked_.lines());
  if (source_ != nullptr && size_) {
    char digits[decimal_size_max];
    text_.append("Content-Length: ").append(digits, format_decimal_to(*size_, digits)).append("\r\n");
  } else if (source_ != nullptr) {
    text_.append("Transfer-Encoding: chunked\r\n");
  }
  text_.append("\r\n");
  const Parsed parsed = parser_.parse(text_);
  if (is_over_limit(parsed.error)) {
    parser_.head.rebase(text_.data());  // the answerer may look at it
    return fail(parsed.error);
  }
  if (parsed.progress != Progress::complete || parsed.size != text_.size())
    return fail(ErrorCode::invalid,
                parsed.progress == Progress::failed ? parsed.error.context : "not one head");
  return {};
}

void LocalCall::answer_failure() {
  exchange_.response.clear();
  answerer_.refuse(exchange_, {ErrorCode::internal, "a handler failed"});
}

// Makes the head and shows it to the answerer. An error: it cannot be sent.
Result<> LocalCall::begin(const CallContext* context) {
  CHECK(state_ == State::idle);
  add_context(*this, context);
  const Result<> read = read_head();
  if (!read && !is_over_limit(read.error())) return fail(read.error());
  if (!exchange_.upgrade.empty() && (method_ != Method::get || source_ != nullptr))
    return fail(ErrorCode::invalid, "not a request that may switch protocols");
  state_ = State::begun;
  next_ = Answerer::Next::answered;
  body_.start(source_, size_);
  exchange_.started = shard_.now();
  try {
    if (!read)
      answerer_.refuse(exchange_, read.error());
    else
      next_ = answerer_.begin(exchange_);
  } catch (...) {  // as at a connection's boundary: a bug of the answerer costs its request
    answer_failure();
  }
  return {};
}

// The answerer has made its answer: can it be given out?
Result<> LocalCall::settle() {
  Response& response = exchange_.response;
  const bool fits = response.is_sound() && !(response.switches && exchange_.upgrade.empty());
  if (!response.abandoned && !fits) answer_failure();
  if (response.abandoned) {
    finish(false);
    return fail(
        Error(ErrorCode::cancelled, "a call inside the process", Side::client, StopReason::client_gone));
  }
  state_ = State::answered;
  body_.let_go();
  left_ = response.has_length() && sends_body() ? response.size() : 0;
  return {};
}

Result<bool> LocalCall::try_ask(const CallContext& context) {
  if (source_ != nullptr) return false;
  TRY_VOID(begin(&context));
  if (next_ == Answerer::Next::handle) return false;
  TRY_VOID(settle());
  return true;
}

Task<Result<>> LocalCall::ask(Call call) {
  CHECK(state_ != State::answered);
  if (state_ == State::idle) CO_TRY_VOID(begin(call.context()));
  if (next_ == Answerer::Next::handle) {
    try {
      co_await answerer_.handle(call, exchange_);
    } catch (...) {  // as in begin()
      answer_failure();
    }
  }
  CO_TRY_VOID(settle());
  // Over a connection the caller would not have heard of this answer.
  if (call.expired()) {
    finish(false);
    co_return fail(Error(ErrorCode::timeout, "a call inside the process", Side::self, StopReason::deadline));
  }
  co_return Result<>{};
}

// --- the answer

bool LocalCall::sends_body() const noexcept {
  const int status = exchange_.response.status;
  return method_ != Method::head && status != 204 && status != 304;
}

bool LocalCall::is_read() const noexcept {
  const Response& response = exchange_.response;
  return state_ == State::answered && left_ == 0 &&
         (!sends_body() || response.has_length() || response.switches);
}

Error LocalCall::break_off(const Error& why) noexcept {
  finish(false);
  failure_ = why;
  return why;
}

std::optional<std::uint64_t> LocalCall::length() const noexcept {
  const Response& response = exchange_.response;
  return response.has_length() ? std::optional(response.size()) : std::nullopt;
}

// An exception of a source breaks its answer and nothing else, as at a connection's boundary.
Task<Result<io::Piece>> LocalCall::pull(Call call) {
  try {
    co_return co_await exchange_.response.source->next(call);
  } catch (...) {
    co_return fail(source_failed);
  }
}

// A body that is no stream.
io::Piece LocalCall::whole() noexcept {
  Response& response = exchange_.response;
  if (response.kind == Response::Body::file)
    return io::Piece::range(*response.file, response.offset, response.count, std::move(response.hold));
  return io::Piece::memory(as_bytes(response.whole()), std::move(response.hold));
}

// Judges the next piece, which the caller gets.
Result<io::Piece> LocalCall::accept(io::Piece piece) {
  const bool sized = exchange_.response.has_length();
  if (sized && (piece.empty() || piece.size() > left_))
    return fail(break_off({ErrorCode::upstream, "an answer that is not as long as it says"}));
  if (sized) left_ -= piece.size();
  if (piece.empty()) finish(true);
  return piece;
}

Task<Result<io::Piece>> LocalCall::next(Call call) {
  if (failure_) co_return fail(*failure_);
  if (std::optional<io::Piece> at_hand = try_next()) co_return std::move(*at_hand);
  if (failure_) co_return fail(*failure_);
  auto pulled = co_await pull(call);
  if (!pulled) co_return fail(break_off(pulled.error()));
  co_return accept(std::move(*pulled));
}

// A failure is left for next() to tell.
std::optional<io::Piece> LocalCall::try_next() {
  Response& response = exchange_.response;
  if (failure_) return std::nullopt;
  if (state_ != State::answered) return io::Piece();
  if (!sends_body() || (response.has_length() && left_ == 0)) {
    finish(true);
    return io::Piece();
  }
  std::optional<io::Piece> piece;
  if (response.kind != Response::Body::stream) {
    piece = whole();
  } else {
    try {
      piece = response.source->try_next();
    } catch (...) {  // as in pull()
      (void)break_off(source_failed);
    }
  }
  if (!piece) return std::nullopt;
  auto accepted = accept(std::move(*piece));
  if (!accepted) return std::nullopt;
  return std::move(*accepted);
}

std::optional<io::Piece> LocalCall::take_whole() {
  if (state_ != State::answered || failure_ || !sends_body()) return std::nullopt;
  if (exchange_.response.kind == Response::Body::stream) return std::nullopt;
  io::Piece piece = whole();
  left_ = 0;
  finish(true);
  return piece;
}

void LocalCall::finish(bool complete) noexcept {
  if (std::exchange(state_, State::idle) == State::idle) return;
  try {
    answerer_.finished(exchange_, complete);
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): a bug of the answerer's, after its answer; nobody waits for it
  }
  exchange_.response.conversation = nullptr;
  exchange_.response.source.reset();
  exchange_.response.hold.reset();
  body_.start(nullptr, {});
}

}  // namespace cairn::http
