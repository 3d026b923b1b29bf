#include "client/upload.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "crypto/blake3.h"
#include "crypto/outboard.h"
#include "runtime/scope.h"
#include "runtime/semaphore.h"

namespace cairn::client {
namespace {

// Below this size, asking whether an object is there costs more than sending it.
constexpr std::uint64_t ask_first_from = 64 << 10;

// Parts under way. The first failure stops the others.
struct Parts {
  StorageClient* storage;
  std::string upload;
  const PutOptions* options;
  Scope scope;
  Semaphore slots;
  std::optional<Failure> failure;

  Parts(StorageClient* client, std::string id, const PutOptions* with, const Call& call)
      : storage(client),
        upload(std::move(id)),
        options(with),
        scope(client->transport().machine().shard, call),
        slots(client->transport().machine().shard, parts_at_once) {}

  static Task<> send(Call call, Parts* parts, std::uint64_t offset, HeapBytes bytes, Permit permit) {
    auto sent = co_await parts->storage->send_part(call, parts->upload, offset, bytes.bytes());
    if (sent && parts->options->moved) parts->options->moved(bytes.size());
    if (!sent && !parts->failure) {
      parts->failure = std::move(sent.error());
      parts->scope.cancel(StopReason::superseded);
    }
    permit = Permit();
  }
  void add(std::uint64_t offset, HeapBytes bytes, Permit permit) {
    scope.spawn("part", send(scope.call(), this, offset, std::move(bytes), std::move(permit)));
  }
  // Every part has ended, well or not.
  Task<Outcome<>> finish(Call call, Outcome<> fed) {
    if (!fed) scope.cancel(StopReason::superseded);
    (void)co_await scope.join(call.unbounded());
    // A failed part stops the feeding, so its failure is the cause, unless the call was stopped from outside.
    if (failure && (fed || !call.stopped())) co_return fail(std::move(*failure));
    co_return fed;
  }
};

bool is_missing(const UploadStatus& status, std::uint64_t first, std::uint64_t last) {
  if (!status.missing || (status.missing->empty() && status.contiguous <= last))
    return last >= status.contiguous;
  return std::ranges::any_of(*status.missing,
                             [&](const auto& range) { return range.first <= last && range.second >= first; });
}

Task<Outcome<>> feed_file(Call call, Parts* parts, io::File* file, std::uint64_t size, UploadStatus status) {
  for (std::uint64_t at = 0; at < size; at += body_max) {
    const std::uint64_t count = std::min(body_max, size - at);
    if (!is_missing(status, at, at + count - 1)) {
      if (parts->options->moved) parts->options->moved(count);
      continue;
    }
    CO_TRY(Permit permit, co_await parts->slots.acquire(parts->scope.call()));
    CO_TRY(HeapBytes bytes, co_await read_piece(call, file, at, static_cast<std::size_t>(count)));
    if (bytes.size() != count)
      co_return fail(Failure(ErrorCode::conflict, "the file became shorter while it was read"));
    parts->add(at, std::move(bytes), std::move(permit));
  }
  co_return Outcome<>{};
}

Task<Outcome<>> send_missing(Call call, StorageClient* storage, std::string upload, io::File* file,
                             std::uint64_t size, UploadStatus status, const PutOptions* options) {
  Parts parts(storage, std::move(upload), options, call);
  auto fed = co_await feed_file(call, &parts, file, size, std::move(status));
  co_return co_await parts.finish(call, std::move(fed));
}

struct Begun {
  std::string id;
  UploadStatus status;
};

// The upload that was interrupted, or a new one.
Task<Outcome<Begun>> begin_or_resume(Call call, StorageClient* storage, std::uint64_t size,
                                     const PutOptions* options) {
  if (options->ledger != nullptr) {
    if (auto known = co_await options->ledger->find(call, options->ledger_key)) {
      auto status = co_await storage->upload_status(call, *known);
      if (status) co_return Begun{std::move(*known), std::move(*status)};
      if (status.error().code() != ErrorCode::not_found) co_return fail(std::move(status.error()));
    }
  }
  CO_TRY(std::string id, co_await storage->begin_upload(call, size, options->media_type));
  // A ledger that cannot be written costs only the resuming.
  if (options->ledger != nullptr) (void)co_await options->ledger->keep(call, options->ledger_key, id);
  co_return Begun{std::move(id), {}};
}

// Whether the server would always refuse the same parts: then the upload will never be finished.
bool is_final(const Failure& failure) noexcept {
  switch (failure.code()) {
    case ErrorCode::storage_full:
    case ErrorCode::body_cap:
    case ErrorCode::conflict:
    case ErrorCode::upload_gap:
    case ErrorCode::malformed:
    case ErrorCode::unsupported_type:
    case ErrorCode::not_implemented:
      return true;
    default:
      return false;
  }
}

// Shielded, so that the server does not keep an upload for a day that will never be finished.
Task<> abandon(Call call, StorageClient* storage, std::string upload) {
  (void)co_await storage->abandon_upload(call.shield().within(Duration::seconds(2)), std::move(upload));
}

Task<Outcome<Stored>> send_and_commit(Call call, StorageClient* storage, io::File* file,
                                      crypto::ObjectHash hash, Begun begun, const PutOptions* options) {
  PutOptions quiet;
  std::uint64_t rounds = 0;
  for (const PutOptions* telling = options;; telling = &quiet) {
    CO_TRY_VOID(co_await send_missing(call, storage, begun.id, file, hash.size, begun.status, telling));
    auto stored = co_await storage->commit_upload(call, begun.id, hash.address, hash.size);
    if (!stored && stored.error().code() == ErrorCode::upload_gap) {
      // The server names only as many gaps as fit into a head. So the next ones are sent after these, as long
      // as some were closed.
      CO_TRY(UploadStatus now, co_await storage->upload_status(call, begun.id));
      const bool moved_on = now != begun.status;
      begun.status = std::move(now);
      if (moved_on && rounds++ < crypto::part_count(hash.size)) continue;
    }
    if (!stored && stored.error().code() == ErrorCode::conflict)
      stored.error().message = "the file changed while it was sent: " + stored.error().message;
    co_return stored;
  }
}

Task<Outcome<Stored>> put_large(Call call, StorageClient* storage, io::File* file, crypto::ObjectHash hash,
                                const PutOptions* options) {
  CO_TRY(Begun begun, co_await begin_or_resume(call, storage, hash.size, options));
  const std::string id = begun.id;
  auto stored = co_await send_and_commit(call, storage, file, std::move(hash), std::move(begun), options);
  // Without a ledger no later put would find the upload again.
  const bool given_up = !stored && (is_final(stored.error()) || options->ledger == nullptr);
  if (given_up) co_await abandon(call, storage, id);
  if ((stored || given_up) && options->ledger != nullptr)
    (void)co_await options->ledger->forget(call, options->ledger_key);
  co_return stored;
}

Task<Outcome<>> feed_stream(Call call, Parts* parts, ByteSource* source, HeapBytes first,
                            crypto::ObjectHasher* hasher) {
  HeapBytes bytes = std::move(first);
  for (std::uint64_t at = 0; !bytes.empty(); at += body_max) {
    hasher->update(bytes.bytes());
    const bool last = bytes.size() < body_max;
    CO_TRY(Permit permit, co_await parts->slots.acquire(parts->scope.call()));
    parts->add(at, std::move(bytes), std::move(permit));
    if (last) break;
    auto more = co_await source->next(call, body_max);
    if (!more) co_return fail(more.error());
    bytes = HeapBytes();
    bytes = std::move(*more);
  }
  co_return Outcome<>{};
}

}  // namespace

Task<Result<HeapBytes>> TextSource::next(Call, std::size_t most) {
  HeapBytes bytes(most);
  const std::string_view piece = std::string_view(text_).substr(at_, most);
  bytes.append(as_bytes(piece));
  at_ += piece.size();
  co_return bytes;
}

Task<Result<HeapBytes>> read_piece(Call call, io::File* file, std::uint64_t offset, std::size_t count) {
  // Shared with the read, which may outlive this wait.
  auto bytes = std::make_shared<HeapBytes>(count);
  io::Region region{bytes->room(), bytes};
  CO_TRY(const std::size_t got, co_await file->read_into(call, offset, std::move(region)));
  bytes->fill(got);
  co_return std::move(*bytes);
}

Task<Result<crypto::ObjectHash>> hash_file(Call call, io::File* file) {
  crypto::ObjectHasher hasher;
  for (std::uint64_t at = 0;;) {
    CO_TRY(const HeapBytes bytes, co_await read_piece(call, file, at, body_max));
    hasher.update(bytes.bytes());
    at += bytes.size();
    if (bytes.size() < body_max) co_return hasher.finish();
  }
}

Task<Outcome<Stored>> put_file(Call call, StorageClient* storage, io::File* file, PutOptions options) {
  CO_TRY(const std::uint64_t size, file->size());
  if (size <= body_max) {
    CO_TRY(const HeapBytes bytes, co_await read_piece(call, file, 0, body_max + 1));
    if (bytes.size() != size)
      co_return fail(Failure(ErrorCode::conflict, "the file changed while it was read"));
    const Address address = crypto::hash_object(bytes.bytes());
    if (size >= ask_first_from) {
      const auto there = co_await storage->head(call, address);
      if (there && there->size == size) {
        if (options.moved) options.moved(size);
        co_return Stored{address, size, false};
      }
    }
    auto stored = co_await storage->put(call, address, bytes.bytes(), options.media_type);
    if (stored && options.moved) options.moved(size);
    co_return stored;
  }
  CO_TRY(crypto::ObjectHash hash, co_await hash_file(call, file));
  if (hash.size != size) co_return fail(Failure(ErrorCode::conflict, "the file changed while it was read"));
  const auto there = co_await storage->head(call, hash.address);
  if (there && there->size == size) {
    if (options.moved) options.moved(size);
    co_return Stored{hash.address, size, false};
  }
  co_return co_await put_large(call, storage, file, std::move(hash), &options);
}

Task<Outcome<Stored>> put_stream(Call call, StorageClient* storage, ByteSource* source, PutOptions options) {
  CO_TRY(HeapBytes first, co_await source->next(call, body_max));
  if (first.size() < body_max) {
    const Address address = crypto::hash_object(first.bytes());
    auto stored = co_await storage->put(call, address, first.bytes(), options.media_type);
    if (stored && options.moved) options.moved(first.size());
    co_return stored;
  }
  CO_TRY(const std::string id, co_await storage->begin_upload(call, std::nullopt, options.media_type));
  crypto::ObjectHasher hasher;
  Outcome<> sent;
  {
    Parts parts(storage, id, &options, call);
    auto fed = co_await feed_stream(call, &parts, source, std::move(first), &hasher);
    sent = co_await parts.finish(call, std::move(fed));
  }
  Outcome<Stored> stored = fail(Failure(ErrorCode::internal, "not decided"));
  if (sent) {
    const crypto::ObjectHash hash = hasher.finish();
    stored = co_await storage->commit_upload(call, id, hash.address, hash.size);
  } else {
    stored = fail(std::move(sent.error()));
  }
  if (!stored) co_await abandon(call, storage, id);
  co_return stored;
}

}  // namespace cairn::client
