// How a connection sends its answers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "http/h1/connection.h"
#include "http/h1/head_writer.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

iovec part(std::string_view text) noexcept { return {const_cast<char*>(text.data()), text.size()}; }

// If at most this many bytes follow, the head is held back to share its first segment with them. Before a
// larger body the head is sent at once: one small segment is nothing beside the rest, and a reader that is
// already awake takes over its share of the work (half of the sender's CPU for 1 MiB over loopback).
constexpr std::uint64_t held_back_max = 128 * 1024;

using ChunkLine = std::array<char, 20>;

std::string_view write_chunk_line(std::uint64_t size, ChunkLine& line) noexcept {
  char* end = std::to_chars(line.data(), line.data() + 16, size, 16).ptr;
  std::memcpy(end, "\r\n", 2);
  return {line.data(), static_cast<std::size_t>(end + 2 - line.data())};
}

}  // namespace

bool Connection::sends_body() const noexcept {
  const int status = exchange_->response.status;
  return exchange_->request().method != Method::head && status != 204 && status != 304;
}

bool Connection::write_head() noexcept {
  const RequestFraming& framing = exchange_->parser.framing;
  Response& response = exchange_->response;
  MutableByteView room = out_.room();
  HeadWriter head({reinterpret_cast<char*>(room.data()), room.size()});
  head.status(response.switches ? 101 : response.status).append_lines(server_.date_line());
  if (stream_->is_encrypted()) head.append_lines(server_.options_.strict_transport);
  head.append_lines(response.fields.lines());
  if (response.switches) {
    head.append_lines("Connection: Upgrade\r\n").append_field(FieldName::upgrade, exchange_->upgrade);
    return claim_head(head);
  }
  if (!response.content_type.empty()) head.append_field(FieldName::content_type, response.content_type);
  if (response.status != 204 && response.status != 304) {
    if (response.has_length())
      head.append_number(FieldName::content_length, response.size());
    else if (framing.minor >= 1)
      head.append_lines("Transfer-Encoding: chunked\r\n");
    else
      response.close = true;
  }
  if (response.close)
    head.append_lines("Connection: close\r\n");
  else if (framing.minor == 0)
    head.append_lines("Connection: keep-alive\r\n");
  return claim_head(head);
}

bool Connection::claim_head(HeadWriter& head) noexcept {
  auto written = head.finish();
  if (!written) return false;
  out_.fill(written->size());
  return true;
}

// Most answers are one write: head and body side by side in one buffer.
bool Connection::append_small_answer() noexcept {
  Response& response = exchange_->response;
  const bool body = sends_body();
  if (body && (response.kind == Response::Body::file || response.kind == Response::Body::stream))
    return false;
  const std::string_view bytes = body ? response.whole() : std::string_view{};
  if (!out_) out_ = server_.machine_.slab.take(Slab::small - 64);
  if (bytes.size() + head_size_max() > out_.room().size()) return false;
  if (!write_head()) return false;
  if (!bytes.empty()) std::memcpy(out_.room().data(), bytes.data(), bytes.size());
  out_.fill(bytes.size());
  response.hold.reset();
  return true;
}

Task<bool> Connection::send_answer(Call call) {
  Response& response = exchange_->response;
  if (input_.empty())
    turn_bytes_ = 0;  // the connection waited for this request; pipelined requests do not start a new turn
  if (!out_) out_ = server_.machine_.slab.take(Slab::small - 64);
  // A stream may make the connection wait, or may fail. The gathered answers before it are sent first, so
  // that they do not share its fate.
  const std::size_t head_size = head_size_max();
  const bool ahead = out_.room().size() < head_size || (gathered_ > 0 && response.source);
  if (ahead && !co_await flush(call, {})) co_return false;
  if (!out_ || out_.room().size() < head_size)
    out_ = server_.machine_.slab.take(std::max(head_size, Slab::small - 64));
  if (!write_head()) co_return false;
  if (!sends_body()) co_return co_await flush(call, {});
  bool complete = false;
  if (response.kind == Response::Body::file) {
    complete = co_await send_file(call);
  } else if (response.kind == Response::Body::stream) {
    complete = co_await send_stream(call);
  } else {
    std::array<iovec, 1> parts{part(response.whole())};
    complete = co_await flush(call, {parts.data(), response.whole().empty() ? 0u : 1u});
  }
  response.hold.reset();
  co_return complete;
}

// A wait for something other than the peer, while an answer is sent. It ends when the peer leaves, so that
// nothing is held in vain. It also ends after a time that is longer than the bounds of the waits inside it.
class Connection::WhileThere {
 public:
  WhileThere(Connection& connection, const Call& call) noexcept
      : stream_(*connection.stream_),
        stop_(connection.server_.machine_.shard, &connection.parent_of_waits(call)),
        call_(call.under(stop_).within(connection.server_.options_.timeouts.source)) {
    stream_.on_peer_gone(
        [](void* stop) noexcept { static_cast<CancelSource*>(stop)->cancel(StopReason::client_gone); },
        &stop_);
  }
  ~WhileThere() { stream_.on_peer_gone(nullptr, nullptr); }
  WhileThere(const WhileThere&) = delete;
  WhileThere& operator=(const WhileThere&) = delete;
  const Call& call() const noexcept { return call_; }
  StopReason reason() const noexcept { return stop_.reason(); }

 private:
  io::Stream& stream_;
  CancelSource stop_;
  Call call_;
};

Task<bool> Connection::wait_writable(Call call) {
  turn_bytes_ = 0;
  run_pieces_ = run_pieces_min;
  const Shard& shard = server_.machine_.shard;
  for (;;) {
    const Duration window = server_.options_.timeouts.write;
    const Instant judged_at = pace_.judged_at(shard.now(), window);
    auto waited = co_await stream_->writable.wait(call.by(judged_at));
    if (waited) co_return true;
    if (waited.error().code != ErrorCode::timeout) co_return false;
    if (call.expired() || pace_.too_slow(stream_->unacknowledged(), server_.options_.least_bytes(window))) {
      server_.gate_.timed_out(Gate::Slow::write);
      co_return false;
    }
  }
}

// Sends out_ and then `parts` (at most three), changing them as it goes.
Task<bool> Connection::flush(Call call, std::span<iovec> parts) {
  std::array<iovec, 4> all;
  std::size_t count = 0;
  if (out_ && !out_.empty()) all[count++] = part(as_text(out_.bytes()));
  for (const iovec& one : parts) all[count++] = one;
  std::size_t at = 0;
  while (at < count) {
    const io::Io sent = stream_->try_writev({all.data() + at, count - at});
    if (sent.status == io::IoStatus::would_block) {
      if (!co_await wait_writable(call)) co_return false;
      continue;
    }
    if (sent.status != io::IoStatus::done) co_return false;
    turn_bytes_ += sent.count;
    pace_.sent(sent.count);
    std::size_t rest = sent.count;
    while (at < count && rest >= all[at].iov_len) rest -= all[at++].iov_len;
    if (rest > 0) {
      all[at].iov_base = static_cast<char*>(all[at].iov_base) + rest;
      all[at].iov_len -= rest;
    }
  }
  out_.clear();
  gathered_ = 0;
  if (input_.empty()) out_.reset();
  co_return true;
}

Task<bool> Connection::give_way(Call call) {
  turn_bytes_ = 0;
  co_await yield(call);
  co_return !call.stopped();
}

Connection::Sent Connection::try_send_range(io::Piece& piece) noexcept {
  while (piece.count > 0) {
    if (turn_bytes_ >= turn_bytes_max) return Sent::turn;
    // A head that was sent before does not shorten the turn: a piece that takes a whole turn is not cut
    // because of it.
    const std::uint64_t rest = turn_bytes_ <= head_room ? turn_bytes_max : turn_bytes_max - turn_bytes_;
    const auto size = static_cast<std::size_t>(std::min(piece.count, rest));
    if (!piece.file->is_warm(piece.offset, size)) return Sent::cold;
    const io::Io sent = stream_->try_send_file(*piece.file, piece.offset, size);
    if (sent.status == io::IoStatus::would_block) return Sent::full;
    if (sent.status != io::IoStatus::done) return Sent::broken;
    piece.offset += sent.count;
    piece.count -= sent.count;
    turn_bytes_ += sent.count;
    pace_.sent(sent.count);
  }
  return Sent::all;
}

Task<bool> Connection::get_past(Call call, Sent obstacle, const io::Piece* piece) {
  switch (obstacle) {
    case Sent::full:
      co_return co_await wait_writable(call);
    case Sent::turn:
      co_return co_await give_way(call);
    case Sent::cold: {
      turn_bytes_ = 0;
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece->count, turn_bytes_max));
      const WhileThere wait(*this, call);
      co_return (co_await piece->file->warm(wait.call(), piece->offset, size)).has_value();
    }
    default:
      co_return false;
  }
}

Task<bool> Connection::send_file(Call call) {
  Response& response = exchange_->response;
  io::Piece piece = io::Piece::range(*response.file, response.offset, response.count);
  stream_->cork(piece.count > 0 && piece.count <= held_back_max);
  const bool head_sent = co_await flush(call, {});
  stream_->cork(false);
  if (!head_sent) co_return false;
  for (Sent sent = try_send_range(piece); sent != Sent::all; sent = try_send_range(piece))
    if (!co_await get_past(call, sent, &piece)) co_return false;
  co_return true;
}

// Pieces that lie side by side in one file are sent as one: a system call and a push for each piece would
// cost more than the rest of the sending.
class Connection::Run {
 public:
  // Adds the pieces that `source` has ready behind `first`, up to `most` bytes and `pieces` in all. A piece
  // that does not continue the run is left in `after`.
  void gather(io::Piece& first, io::BodySource& source, std::uint64_t most, std::size_t pieces,
              std::optional<io::Piece>& after) {
    while (count_ + 1 < pieces) {
      after = source.try_next();
      if (!after || !after->is_file() || after->file != first.file || after->count == 0 ||
          after->offset != first.offset + first.count || after->count > most - first.count)
        return;
      first.count += after->count;
      holds_[count_++] = std::move(after->hold);
      after.reset();
    }
  }
  void release() noexcept {
    while (count_ > 0) holds_[--count_].reset();
  }

 private:
  std::array<io::Hold, run_pieces_max - 1> holds_;
  std::size_t count_ = 0;
};

// Without this check the kernel would keep sending to a vanished peer for a quarter of an hour.
bool Connection::has_vanished() noexcept {
  constexpr Duration look_every = Duration::seconds(10);
  const Instant now = server_.machine_.shard.now();
  // The kernel itself tells when a Unix peer has ended.
  if (now < look_at_ || stream_->peer().local) return false;
  look_at_ = now + look_every;
  if (!pace_.vanished(now, stream_->unacknowledged(), server_.options_.timeouts.idle)) return false;
  server_.gate_.timed_out(Gate::Slow::write);
  return true;
}

Task<Result<io::Piece>> Connection::pull(Call call) {
  if (conversing_ != nullptr) co_return co_await conversing_->next();
  const WhileThere wait(*this, call);
  Result<io::Piece> piece = co_await exchange_->response.source->next(wait.call());
  // Only draining ends the stream properly. If the peer has left, the error stands.
  if (!piece && exchange_->stays_open && wait.reason() == StopReason::draining) co_return io::Piece();
  co_return piece;
}

// The head is sent with the first piece. An open-ended stream that has no piece ready sends it ahead, because
// the wait may be long.
Task<bool> Connection::send_stream(Call call) {
  Response& response = exchange_->response;
  const bool sized = response.sized;
  const bool chunked = !sized && !response.switches && exchange_->parser.framing.minor >= 1;
  ChunkLine line;
  std::array<iovec, 3> parts;
  Run run;
  std::optional<io::Piece> after;
  for (std::uint64_t left = sized ? response.count : turn_bytes_max; left > 0;) {
    if (exchange_->stays_open && has_vanished()) co_return false;
    std::optional<io::Piece> piece = std::exchange(after, std::nullopt);
    try {
      // A stream that always has more to send ends here, too.
      const bool drains = exchange_->stays_open && server_.idle_->reason() == StopReason::draining;
      if (drains && !response.switches) piece = io::Piece();
      if (!piece) piece = response.source->try_next();
      if (!piece) {
        if (!sized && out_ && !out_.empty() && !co_await flush(call, {})) co_return false;
        turn_bytes_ = 0;
        if (exchange_->stays_open && input_.empty()) input_.reset();
        auto pulled = co_await pull(call);
        if (!pulled) co_return false;
        piece = std::move(*pulled);
      }
      if (sized && (piece->empty() || piece->size() > left)) co_return false;
      if (piece->is_file() && piece->size() < left)
        run.gather(*piece, *response.source, left, run_pieces_, after);
    } catch (...) {  // the connection boundary
      co_return false;
    }
    const bool last = piece->empty();
    const bool file = !last && piece->is_file();
    if (sized) left -= piece->size();

    std::size_t count = 0;
    if (chunked) parts[count++] = part(write_chunk_line(piece->size(), line));
    if (!last && !file) parts[count++] = part(as_text(piece->bytes));
    if (chunked && !file) parts[count++] = part("\r\n");
    if (count > 0 || (out_ && !out_.empty())) {
      stream_->cork(file && piece->size() + (sized ? left : 0) <= held_back_max);
      const bool ahead = co_await flush(call, {parts.data(), count});
      stream_->cork(false);
      if (!ahead) co_return false;
    }
    if (last) co_return true;
    if (file) {
      run_pieces_ = std::min(2 * run_pieces_, run_pieces_max);
      for (Sent sent = try_send_range(*piece); sent != Sent::all; sent = try_send_range(*piece))
        if (!co_await get_past(call, sent, &*piece)) co_return false;
      run.release();
      if (chunked) {
        parts[0] = part("\r\n");
        if (!co_await flush(call, {parts.data(), 1})) co_return false;
      }
    } else if (turn_bytes_ >= turn_bytes_max && !co_await give_way(call)) {
      co_return false;
    }
  }
  co_return co_await flush(call, {});  // the head of a stream of no bytes
}

}  // namespace cairn::http
