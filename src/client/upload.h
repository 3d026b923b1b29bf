// Putting objects of any size: small ones in one request, large ones as parts that survive a break.
//   [UP-1] At most parts_at_once parts of body_max bytes are in memory, whatever the object's size.
//   [UP-2] An object is reported stored only when the server's address is the one computed here.
//   [UP-3] A break leaves the upload where the ledger finds it; the next put sends only what is missing.
//   [UP-4] An upload that is given up for good is ended at the server, so that no part of it stays there.
#pragma once

#include <functional>
#include <string>

#include "base/heap_bytes.h"
#include "client/storage_client.h"
#include "client/upload_ledger.h"
#include "crypto/object_hasher.h"
#include "io/file.h"

namespace cairn::client {

inline constexpr std::size_t parts_at_once = 4;

// Bytes that come once and in order, of unknown number.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `most` bytes; fewer only at the end, none after it. Cancel: partial — bytes may be lost.
  virtual Task<Result<HeapBytes>> next(Call call, std::size_t most) = 0;
};

// A source of text that is in memory anyway.
class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string text) noexcept : text_(std::move(text)) {}
  Task<Result<HeapBytes>> next(Call call, std::size_t most) override;

 private:
  std::string text_;
  std::size_t at_ = 0;
};

struct PutOptions {
  std::string media_type = {};
  // Called with numbers of bytes that need not be sent any more: sent, or found at the server.
  std::function<void(std::uint64_t)> moved = {};
  // Where an interrupted upload is remembered, under a key that changes when the file does.
  UploadLedger* ledger = nullptr;
  std::string ledger_key = {};
};

// Both pieces of memory belong to the caller and outlive the call.
// Cancel: partial — parts that were acknowledged stay with the server and in the ledger.
Task<Outcome<Stored>> put_file(Call call, StorageClient* storage, io::File* file, PutOptions options);
// Not resumable, because a stream cannot be read again. Cancel: partial — the upload is ended, or expires.
Task<Outcome<Stored>> put_stream(Call call, StorageClient* storage, ByteSource* source, PutOptions options);

// Reads `count` bytes at `offset`; fewer only at the end of the file. Cancel: clean.
Task<Result<HeapBytes>> read_piece(Call call, io::File* file, std::uint64_t offset, std::size_t count);
// The address of a file's bytes. Cancel: clean.
Task<Result<crypto::ObjectHash>> hash_file(Call call, io::File* file);

}  // namespace cairn::client
