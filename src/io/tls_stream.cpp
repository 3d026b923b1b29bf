#include "io/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cstring>

#include "io/file.h"
#include "io/tls_carrier.h"

namespace cairn::io {
namespace {

// More than a record adds to its bytes in any suite, and what a key update before it takes.
constexpr std::size_t record_overhead = 128;
// Corked records up to this size wait for those behind them.
constexpr std::size_t held_max = 4096;

std::size_t size_of(std::span<const iovec> parts) noexcept {
  std::size_t total = 0;
  for (const iovec& each : parts) total += each.iov_len;
  return total;
}

// Cuts the parts into records, without copying what lies in one piece.
class Cutter {
 public:
  // `scratch` is for records that lie in several pieces, and has room for one.
  Cutter(std::span<const iovec> parts, std::size_t record_max, Buffer& scratch) noexcept
      : parts_(parts), record_max_(record_max), scratch_(scratch) {}

  // The next record's bytes; empty at the end. Valid until the next call.
  ByteView next() noexcept {
    while (at_ < parts_.size() && offset_ == parts_[at_].iov_len) ++at_, offset_ = 0;
    if (at_ == parts_.size()) return {};
    const std::size_t here = parts_[at_].iov_len - offset_;
    if (here >= record_max_ || at_ + 1 == parts_.size()) {
      const ByteView record{static_cast<const std::byte*>(parts_[at_].iov_base) + offset_,
                            std::min(here, record_max_)};
      offset_ += record.size();
      return record;
    }
    return gather();
  }

 private:
  ByteView gather() noexcept {
    scratch_.clear();
    const std::size_t most = std::min(record_max_, scratch_.room().size());
    while (at_ < parts_.size() && scratch_.size() < most) {
      const std::size_t count = std::min(parts_[at_].iov_len - offset_, most - scratch_.size());
      if (count > 0)
        std::memcpy(scratch_.room().data(), static_cast<const std::byte*>(parts_[at_].iov_base) + offset_,
                    count);
      scratch_.fill(count);
      offset_ += count;
      if (offset_ == parts_[at_].iov_len) ++at_, offset_ = 0;
    }
    return scratch_.bytes();
  }

  std::span<const iovec> parts_;
  std::size_t record_max_;
  std::size_t at_ = 0, offset_ = 0;
  Buffer& scratch_;
};

}  // namespace

TlsStream::TlsStream(std::shared_ptr<const TlsParty> party, Shard& shard, Slab& slab,
                     std::unique_ptr<Stream> below, TlsOwned<ssl_st> connection) noexcept
    : Stream(shard),
      party_(std::move(party)),
      slab_(slab),
      below_(std::move(below)),
      connection_(std::move(connection)) {
  below_->readable.pass_on_to(&readable);
  below_->writable.pass_on_to(&writable);
  if (below_->readable.ready()) readable.signal();
  if (below_->writable.ready()) writable.signal();
  below_->on_peer_gone([](void* self) noexcept { static_cast<TlsStream*>(self)->tell_peer_gone(); }, this);
  readable.before_wait([](void* below) noexcept { static_cast<Stream*>(below)->readable.tell_wait(); },
                       below_.get());
}

std::unique_ptr<TlsStream> TlsStream::make(std::shared_ptr<const TlsParty> party, Shard& shard, Slab& slab,
                                           std::unique_ptr<Stream> below, TlsOwned<ssl_st> connection) {
  if (!connection) return nullptr;
  std::unique_ptr<TlsStream> stream(
      new TlsStream(std::move(party), shard, slab, std::move(below), std::move(connection)));
  if (!carry_tls(*stream->party_, stream->connection_.get(), *stream)) return nullptr;
  return stream;
}

std::unique_ptr<TlsStream> TlsStream::accept(std::shared_ptr<const TlsServer> server, Shard& shard,
                                             Slab& slab, std::unique_ptr<Stream> below) {
  TlsOwned<ssl_st> connection = server->open(shard);
  return make(std::move(server), shard, slab, std::move(below), std::move(connection));
}

std::unique_ptr<TlsStream> TlsStream::connect(std::shared_ptr<const TlsClient> client, Shard& shard,
                                              Slab& slab, std::unique_ptr<Stream> below,
                                              const std::string& name) {
  TlsOwned<ssl_st> connection = client->open(shard, name);
  return make(std::move(client), shard, slab, std::move(below), std::move(connection));
}

TlsStream::~TlsStream() {
  close(false);
  below_->on_peer_gone(nullptr, nullptr);
  below_->readable.pass_on_to(nullptr);
  below_->writable.pass_on_to(nullptr);
}

// --- records on their way

// Empty: no memory.
Buffer TlsStream::take(std::size_t size) noexcept {
  try {
    return slab_.take(size);
  } catch (...) {
    return {};
  }
}

bool TlsStream::reserve(std::size_t size) noexcept {
  for (Buffer& each : out_) {
    if (room() >= size) return true;
    if (!each) each = take(std::min(size - room(), Slab::large));
  }
  return room() >= size;
}

void TlsStream::append(ByteView bytes) noexcept {
  for (Buffer& each : out_) {
    const std::size_t count = std::min(bytes.size(), each.room().size());
    if (count == 0) continue;
    std::memcpy(each.room().data(), bytes.data(), count);
    each.fill(count);
    bytes = bytes.subspan(count);
  }
}

bool TlsStream::flush() noexcept {
  held_ = false;
  if (refused_ && !below_->writable.ready()) return false;
  refused_ = false;
  while (unsent() > 0) {
    std::array<iovec, 2> parts;
    std::size_t count = 0;
    for (const Buffer& each : out_)
      if (!each.empty()) parts[count++] = {const_cast<std::byte*>(each.bytes().data()), each.size()};
    const Io sent = below_->try_writev({parts.data(), count});
    if (sent.status == IoStatus::would_block) {
      refused_ = true;
      return false;
    }
    if (sent.status != IoStatus::done) {
      break_off();
      return false;
    }
    const std::size_t first = std::min(sent.count, out_[0].size());
    if (first > 0) out_[0].consume(first);
    if (sent.count > first) out_[1].consume(sent.count - first);
  }
  for (Buffer& each : out_) each.reset();
  if (said_end_ && !below_is_shut_ && !closed_) {
    below_is_shut_ = true;
    below_->shutdown_send();
  }
  return true;
}

// Records that OpenSSL made by itself, or that a write left here.
void TlsStream::flush_leftover() noexcept {
  if (unsent() > 0 && !held_ && !broken_) (void)flush();
}

void TlsStream::break_off() noexcept {
  broken_ = true;
  owed_ = 0;
  for (Buffer& each : out_) each.reset();
  ERR_clear_error();
}

// --- the handshake

TlsStream::Handshake TlsStream::try_handshake() noexcept {
  if (shaken_) return Handshake::done;
  if (broken_) return Handshake::failed;
  start_attempt();
  int outcome = 0, why = SSL_ERROR_NONE;
  bool sent = false, stuck = false;
  do {
    ERR_clear_error();
    outcome = SSL_do_handshake(connection_.get());
    why = outcome == 1 ? SSL_ERROR_NONE : SSL_get_error(connection_.get(), outcome);
    stuck = unsent() == 0;
    // An alert is sent too, if the stream below takes it at once.
    sent = flush();
    // A flight that is longer than what out_ holds goes on, because nobody will say that the stream below has
    // room: it had room all the time.
  } while (why == SSL_ERROR_WANT_WRITE && sent && !stuck && !broken_);
  if (broken_) return Handshake::failed;
  // The last records too must be below, because the caller may have nothing more to send, and the peer waits
  // for them. It does not wait for the tickets with which a server of TLS 1.3 ends.
  const bool only_tickets =
      SSL_is_server(connection_.get()) == 1 && SSL_version(connection_.get()) == TLS1_3_VERSION;
  if (why == SSL_ERROR_WANT_WRITE && stuck) {
    reason_ = "no memory";
    break_off();
    return Handshake::failed;
  }
  if (why == SSL_ERROR_WANT_WRITE || (!sent && why == SSL_ERROR_WANT_READ) ||
      (!sent && why == SSL_ERROR_NONE && !only_tickets)) {
    writable.clear();
    return Handshake::wants_write;
  }
  if (why == SSL_ERROR_WANT_READ) {
    cut_ ? readable.pause() : readable.clear();
    return Handshake::wants_read;
  }
  if (why == SSL_ERROR_NONE) {
    shaken_ = true;
    record_max_ = agreed_record_max();
    const bool more = below_->readable.ready() || SSL_has_pending(connection_.get()) != 0;
    more ? readable.signal() : readable.clear();
    sent ? writable.signal() : writable.clear();
    return Handshake::done;
  }
  const unsigned long code = ERR_peek_last_error();
  reason_ = code != 0 ? ERR_reason_error_string(code) : nullptr;
  break_off();
  return Handshake::failed;
}

// OpenSSL would cut longer ones by itself, and each piece needs room of its own.
std::size_t TlsStream::agreed_record_max() const noexcept {
  const unsigned code = SSL_SESSION_get_max_fragment_length(SSL_get0_session(connection_.get()));
  const bool asked = code >= TLSEXT_max_fragment_length_512 && code <= TLSEXT_max_fragment_length_4096;
  return asked ? std::size_t{256} << code : Slab::medium;
}

Error TlsStream::failure() const noexcept {
  const long verified = SSL_get_verify_result(connection_.get());
  if (verified != X509_V_OK)
    return {ErrorCode::integrity, X509_verify_cert_error_string(verified), Side::upstream};
  return {ErrorCode::connection_lost, reason_ != nullptr ? reason_ : "TLS handshake", Side::upstream};
}

bool TlsStream::is_resumed() const noexcept { return SSL_session_reused(connection_.get()) == 1; }

std::string_view TlsStream::protocol() const noexcept {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(connection_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

Task<Result<>> TlsStream::finish_handshake(Call call, TlsStream* stream) {
  const Call bounded = call.within(tls_handshake_patience);
  for (;;) {
    switch (stream->try_handshake()) {
      case Handshake::done:
        co_return Result<>{};
      case Handshake::failed:
        co_return fail(stream->failure());
      case Handshake::wants_read:
        CO_TRY_VOID(co_await stream->readable.wait(bounded));
        break;
      case Handshake::wants_write:
        CO_TRY_VOID(co_await stream->writable.wait(bounded));
        break;
    }
  }
}

// --- reading

void TlsStream::start_attempt() noexcept {
  ERR_clear_error();
  attempt_bytes_ = 0;
  attempt_without_data_ = 0;
  cut_ = false;
}

// OpenSSL goes on by itself for as long as records without data are there. It stops when it takes the peer's
// end for said.
void TlsStream::count_arrival() noexcept {
  if (!shaken_ || ++without_data_ <= without_data_max) return;
  flooded_ = true;
  SSL_set_shutdown(connection_.get(), SSL_get_shutdown(connection_.get()) | SSL_RECEIVED_SHUTDOWN);
}

void TlsStream::count_data() noexcept {
  if (without_data_ > 0) attempt_without_data_ += without_data_ - 1;  // the record of the data itself
  without_data_ = 0;
  if (attempt_without_data_ >= without_data_max) cut_ = true;
}

Io TlsStream::try_read(MutableByteView into) noexcept {
  if (broken_ || closed_) return {IoStatus::failed};
  std::size_t got = 0;
  bool empty = false;
  start_attempt();
  while (got < into.size() && !ended_ && !broken_ && !empty && !cut_) {
    std::size_t count = 0;
    if (SSL_read_ex(connection_.get(), into.data() + got, into.size() - got, &count) == 1) {
      got += count;
      count_data();
      // Asking OpenSSL once more would cost as much as another system call.
      empty = !below_->readable.ready() && SSL_has_pending(connection_.get()) == 0;
      continue;
    }
    if (flooded_) {
      break_off();
      break;
    }
    switch (SSL_get_error(connection_.get(), 0)) {
      case SSL_ERROR_WANT_READ:
        empty = !cut_;
        break;
      case SSL_ERROR_ZERO_RETURN:
        ended_ = true;
        break;
      default:
        break_off();
    }
  }
  flush_leftover();
  if (cut_)
    readable.pause();
  else if (empty && got < into.size())
    readable.clear();
  if (ended_ && !peer_gone()) tell_peer_gone();
  if (got > 0) return {IoStatus::done, got};
  if (ended_) return {IoStatus::eof};
  return {broken_ ? IoStatus::failed : IoStatus::would_block};
}

Io TlsStream::try_discard(std::size_t count) noexcept {
  if (said_end_ || broken_) {
    flush_leftover();
    const Io dropped = below_->try_discard(count);
    if (dropped.status == IoStatus::would_block || !below_->readable.ready()) readable.clear();
    return dropped;
  }
  Buffer scratch = take(Slab::medium);
  if (!scratch) return {IoStatus::failed};
  return try_read(scratch.room().first(std::min(count, scratch.room().size())));
}

// --- writing

std::size_t TlsStream::settle() noexcept {
  // Of the record bytes that are left, at most as many are the caller's.
  const std::size_t left = std::min(owed_, unsent());
  return std::exchange(owed_, left) - left;
}

std::optional<Io> TlsStream::send_earlier(std::size_t wanted) noexcept {
  if (broken_ || closed_ || said_end_) return Io{IoStatus::failed};
  if (owed_ == 0 && (unsent() == 0 || held_)) return std::nullopt;
  const bool sent = flush();
  if (broken_) return Io{IoStatus::failed};
  const std::size_t settled = settle();
  const std::size_t told = std::min(settled, wanted);
  owed_ += settled - told;
  if (told > 0) return Io{IoStatus::done, told};
  if (sent) return std::nullopt;
  writable.clear();
  return Io{IoStatus::would_block};
}

bool TlsStream::encrypt_record(ByteView plain) noexcept {
  std::size_t taken = 0;
  if (SSL_write_ex(connection_.get(), plain.data(), plain.size(), &taken) == 1 && taken == plain.size())
    return true;
  break_off();
  return false;
}

std::size_t TlsStream::encrypt(std::span<const iovec> parts) noexcept {
  const std::size_t total = std::min(size_of(parts), batch_max);
  // Most answers fit one block, so that they are one piece of memory below, too.
  (void)reserve(total + (total / record_max_ + 2) * record_overhead);
  Buffer scratch = parts.size() > 1 ? take(Slab::medium) : Buffer();
  Cutter cutter(parts, record_max_, scratch);
  std::size_t made = 0;
  ERR_clear_error();
  while (made < total) {
    const ByteView record = cutter.next();
    if (record.empty() || !reserve(record.size() + record_overhead)) break;
    if (!encrypt_record(record)) return 0;
    made += record.size();
  }
  return made;
}

Io TlsStream::send(std::size_t made) noexcept {
  if (broken_ || made == 0) return {IoStatus::failed};
  if (corked_ && unsent() <= held_max) {
    held_ = true;
    return {IoStatus::done, made};
  }
  owed_ = made;
  const bool sent = flush();
  if (broken_) return {IoStatus::failed};
  const std::size_t told = settle();
  if (told > 0) return {IoStatus::done, told};
  CHECK(!sent);  // TS-2: what is below has been told of
  writable.clear();
  return {IoStatus::would_block};
}

Io TlsStream::try_writev(std::span<const iovec> parts) noexcept {
  if (const auto earlier = send_earlier(size_of(parts))) return *earlier;
  return send(encrypt(parts));
}

Io TlsStream::try_send_file(File& file, std::uint64_t offset, std::size_t count) noexcept {
  if (const auto earlier = send_earlier(count)) return *earlier;
  count = std::min(count, Slab::large);
  ByteView bytes = file.in_memory(offset, count);
  Buffer copy;
  if (bytes.empty()) {
    copy = take(count);
    if (!copy) return {IoStatus::failed};
    const auto got = file.copy_out(offset, copy.room().first(count));
    if (!got || *got == 0) return {IoStatus::failed};  // shorter than when its size was asked
    copy.fill(*got);
    bytes = copy.bytes();
  }
  const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send(encrypt({&part, 1}));
}

void TlsStream::cork(bool on) noexcept {
  corked_ = on;
  below_->cork(on);
}

// --- the end

void TlsStream::say_end() noexcept {
  if (said_end_ || !shaken_ || broken_) return;
  said_end_ = true;
  ERR_clear_error();
  (void)SSL_shutdown(connection_.get());
  (void)flush();
}

void TlsStream::shutdown_send() noexcept {
  if (closed_) return;
  say_end();
  if (!said_end_) below_->shutdown_send();
}

bool TlsStream::is_ending() noexcept {
  if (!said_end_ || broken_ || closed_ || unsent() == 0 || flush()) return false;
  writable.clear();
  return !broken_;
}

void TlsStream::close(bool reset) noexcept {
  if (std::exchange(closed_, true)) return;
  if (!reset) say_end();
  for (Buffer& each : out_) each.reset();
  below_->close(reset);
}

namespace {

Task<Result<std::unique_ptr<Stream>>> shake_hands(Call call, std::unique_ptr<TlsStream> stream) {
  if (!stream) co_return fail(ErrorCode::connection_lost, "TLS has no memory, or no such name can be");
  CO_TRY_VOID(co_await TlsStream::finish_handshake(call, stream.get()));
  co_return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace

Task<Result<std::unique_ptr<Stream>>> accept_tls(Call call, std::shared_ptr<const TlsServer> server,
                                                 Shard* shard, Slab* slab, std::unique_ptr<Stream> below) {
  return shake_hands(call, TlsStream::accept(std::move(server), *shard, *slab, std::move(below)));
}

Task<Result<std::unique_ptr<Stream>>> connect_tls(Call call, std::shared_ptr<const TlsClient> client,
                                                  Shard* shard, Slab* slab, std::unique_ptr<Stream> below,
                                                  std::string name) {
  return shake_hands(call, TlsStream::connect(std::move(client), *shard, *slab, std::move(below), name));
}

}  // namespace cairn::io
