// TlsStream: a stream that is encrypted on its way over another one, real or simulated.
//   [TS-1] The end of the stream is the peer's close_notify. An end without it is `failed`, because bytes may
//         be missing.
//   [TS-2] A written byte counts as `done` only once the stream below has taken its whole record. So after
//         would_block the next write begins with the same bytes. Their records are made already, and are sent
//         once.
//   [TS-3] An idle connection holds no buffer, neither here nor in OpenSSL. A connection whose peer does not
//         read holds at most `unsent_max` bytes.
//   [TS-4] Records have up to 16 KiB, or as much as the peer has asked for (RFC 6066, 4). One write to the
//         stream below has up to four of them and a bit more.
//   [TS-5] A `readable` that is not ready has nothing decrypted behind it. The stream below tells of the
//         next byte.
//   [TS-6] One attempt reads a bounded number of bytes from the stream below, and handles a bounded number of
//         records and messages that bring no data. Then `readable` is paused. A peer that sends more of those
//         than `without_data_max` in a row, as key updates, breaks the connection.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "io/stream.h"
#include "io/tls_context.h"
#include "runtime/buffer.h"

namespace cairn::io {

class TlsStream final : public Stream {
 public:
  static constexpr std::size_t batch_max = Slab::large + 4096;  // plain bytes of one write
  static constexpr std::size_t unsent_max = 2 * Slab::large;
  // One key update counts twice: as a record and as a message.
  static constexpr unsigned without_data_max = 64;

  // The server's end of `below`, before the handshake; the client's, for a peer of that name. Null: no
  // memory, or no such name can be. The slab outlives it.
  static std::unique_ptr<TlsStream> accept(std::shared_ptr<const TlsServer> server, Shard& shard, Slab& slab,
                                           std::unique_ptr<Stream> below);
  static std::unique_ptr<TlsStream> connect(std::shared_ptr<const TlsClient> client, Shard& shard, Slab& slab,
                                            std::unique_ptr<Stream> below, const std::string& name);
  ~TlsStream() override;

  // --- the handshake. No other attempt is made before it is done.
  enum class Handshake : std::uint8_t { done, wants_read, wants_write, failed };
  // As far as it goes. After wants_read it is tried again when `readable`, after wants_write when `writable`.
  Handshake try_handshake() noexcept;
  // Until it is done. Cancel: partial — the stream can only be closed.
  static Task<Result<>> finish_handshake(Call call, TlsStream* stream);
  // Why the handshake failed, in words that outlive the stream. Code `integrity`: the peer is not who it
  // should be.
  Error failure() const noexcept;
  bool is_resumed() const noexcept;  // by a ticket of an earlier connection
  // Whether it broke because of TS-6.
  bool is_flooded() const noexcept { return flooded_; }

  // --- Stream
  Io try_read(MutableByteView into) noexcept override;
  Io try_discard(std::size_t count) noexcept override;
  Io try_writev(std::span<const iovec> parts) noexcept override;
  Io try_send_file(File& file, std::uint64_t offset, std::size_t count) noexcept override;
  std::uint64_t unacknowledged() const noexcept override { return below_->unacknowledged(); }
  // Records that are made while it is on wait for the next write behind them.
  void cork(bool on) noexcept override;
  // Sends close_notify. What arrives later can be read on, or discarded from then on.
  void shutdown_send() noexcept override;
  bool is_ending() noexcept override;
  void close(bool reset = false) noexcept override;
  PeerAddress peer() const noexcept override { return below_->peer(); }
  bool is_encrypted() const noexcept override { return true; }
  std::string_view protocol() const noexcept override;

 private:
  friend struct TlsCarrier;
  // What one attempt reads from the stream below, and a buffer of OpenSSL more.
  static constexpr std::size_t attempt_bytes_max = Slab::large;

  TlsStream(std::shared_ptr<const TlsParty> party, Shard& shard, Slab& slab, std::unique_ptr<Stream> below,
            TlsOwned<ssl_st> connection) noexcept;
  static std::unique_ptr<TlsStream> make(std::shared_ptr<const TlsParty> party, Shard& shard, Slab& slab,
                                         std::unique_ptr<Stream> below, TlsOwned<ssl_st> connection);

  std::size_t unsent() const noexcept { return out_[0].size() + out_[1].size(); }
  std::size_t room() noexcept { return out_[0].room().size() + out_[1].room().size(); }
  // Makes room for `size` bytes of records behind those that wait. False: too many wait.
  bool reserve(std::size_t size) noexcept;
  Buffer take(std::size_t size) noexcept;
  void append(ByteView bytes) noexcept;
  // Sends the records that wait, as far as the stream below takes them. False: some are left, or it broke.
  bool flush() noexcept;
  void flush_leftover() noexcept;
  // Records that wait from an earlier write go first; a value is the answer to the present attempt.
  std::optional<Io> send_earlier(std::size_t wanted) noexcept;
  // Makes records of as many bytes as one write may have; returns how many.
  std::size_t encrypt(std::span<const iovec> parts) noexcept;
  bool encrypt_record(ByteView plain) noexcept;
  // Sends what encrypt() made of the caller's `made` bytes.
  Io send(std::size_t made) noexcept;
  // How many of the bytes that the caller was not told of are below by now.
  std::size_t settle() noexcept;
  void break_off() noexcept;
  void say_end() noexcept;
  std::size_t agreed_record_max() const noexcept;
  void start_attempt() noexcept;
  // Called by OpenSSL for each record and each message, before their bytes are looked at.
  void count_arrival() noexcept;
  void count_data() noexcept;

  std::shared_ptr<const TlsParty> party_;
  Slab& slab_;
  std::unique_ptr<Stream> below_;
  TlsOwned<ssl_st> connection_;
  std::array<Buffer, 2> out_;   // records on their way, in order
  std::size_t owed_ = 0;        // plain bytes of the caller in out_, of which it was not told yet
  std::size_t record_max_ = 0;  // plain bytes of one record, once the handshake is done
  bool shaken_ = false;         // the handshake is done
  bool corked_ = false;
  bool held_ = false;   // out_ waits for the next write, not for the stream below
  bool ended_ = false;  // the peer's close_notify was read
  bool said_end_ = false, below_is_shut_ = false;
  bool broken_ = false;
  bool closed_ = false;
  bool refused_ = false;  // the stream below had no room at the last attempt
  bool flooded_ = false;
  unsigned without_data_ = 0;  // records and messages since the last data
  // --- of the present attempt
  std::size_t attempt_bytes_ = 0;
  unsigned attempt_without_data_ = 0;
  bool cut_ = false;  // it has done enough
  const char* reason_ = nullptr;
};

// Takes a client in: the stream is ready for use. Cancel: clean — the connection is closed.
Task<Result<std::unique_ptr<Stream>>> accept_tls(Call call, std::shared_ptr<const TlsServer> server,
                                                 Shard* shard, Slab* slab, std::unique_ptr<Stream> below);
// The same for the other end. `name` is who the peer has to be. Cancel: clean — the connection is closed.
Task<Result<std::unique_ptr<Stream>>> connect_tls(Call call, std::shared_ptr<const TlsClient> client,
                                                  Shard* shard, Slab* slab, std::unique_ptr<Stream> below,
                                                  std::string name);
// The time that a peer has for its part of a handshake.
inline constexpr Duration tls_handshake_patience = Duration::seconds(5);

}  // namespace cairn::io
