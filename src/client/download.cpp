#include "client/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "client/upload.h"
#include "crypto/proof.h"
#include "runtime/wait.h"

namespace cairn::client {
namespace {

using crypto::group_size;

// One object on its way.
struct Transfer {
  StorageClient* storage;
  Address address;
  Destination* destination;
  const DownloadOptions* options;
  std::optional<std::uint64_t> size;  // as the first proof claims
  std::uint64_t held;                 // of the destination's own bytes, not yet verified
  std::uint64_t transferred = 0;

  Transport& transport() const noexcept { return storage->transport(); }
  std::string what() const { return format_address(address); }

  Failure wrong(std::string words) const {
    Failure failure(ErrorCode::integrity, std::move(words), Side::upstream);
    failure.asked = fmt::format("{} of {}", what(), format_endpoint(transport().options().endpoint));
    return failure;
  }
};

struct Window {
  std::uint64_t first = 0, end = 0;
};

// The proof of an object of one group: its size, in eight bytes.
std::optional<crypto::ProofReader> proof_of_one_group(const Transfer& transfer) {
  const auto size = transfer.options->claimed_size;
  if (!size || *size > group_size) return std::nullopt;
  std::array<std::byte, crypto::proof_head_size> text;
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(*size >> (8 * i));
  crypto::ProofReader reader(transfer.address, 0, window_size - 1);
  const auto used = reader.update(text);
  CHECK(used && reader.done());
  return reader;
}

// Reads the proof of the window that begins at `first`. Tried again as a whole: it is small.
Task<Outcome<crypto::ProofReader>> read_proof(Call call, Transfer* transfer, std::uint64_t first) {
  if (auto known = proof_of_one_group(*transfer)) co_return std::move(*known);
  std::uint64_t last = first + window_size - 1;
  if (transfer->size) last = std::min(last, *transfer->size - 1);
  Backoff backoff(transfer->transport().options().backoff);
  for (;;) {
    CO_TRY(http::ClientResponse response,
           co_await transfer->storage->open_proof(call, transfer->address, first, last));
    crypto::ProofReader reader(transfer->address, first, last);
    Result<> outcome;
    while (outcome) {
      auto slice = co_await transfer->transport().next(call, response);
      if (!slice) {
        outcome = fail(slice.error());
        break;
      }
      if (slice->empty()) break;
      const auto used = reader.update(slice->bytes());
      if (!used || *used != slice->size())
        co_return fail(transfer->wrong("the proof does not lead to the address"));
    }
    if (reader.done()) co_return reader;
    if (outcome) co_return fail(transfer->wrong("the proof is cut off"));
    Failure failure(outcome.error());
    const auto wait = backoff.next(transfer->transport().machine().shard.random());
    if (!wait || !may_pass(failure)) co_return fail(std::move(failure));
    CO_TRY_VOID(co_await sleep_for(call, *wait));
  }
}

Outcome<> verify(const Transfer& transfer, const crypto::ProofReader& proof, std::uint64_t at,
                 ByteView bytes) {
  if (proof.verify_group(at / group_size, bytes)) return {};
  return fail(transfer.wrong(fmt::format("the bytes at {} are not those of the address", at)));
}

// Verifies the destination's own bytes in the window, and returns where the first group is that is wrong or
// cut off.
Task<Outcome<std::uint64_t>> verify_held(Call call, Transfer* transfer, const crypto::ProofReader* proof,
                                         Window window) {
  std::uint64_t at = window.first;
  while (at < window.end) {
    const std::size_t count = crypto::group_length(*transfer->size, at / group_size);
    if (at + count > transfer->held) break;
    CO_TRY(const HeapBytes bytes, co_await transfer->destination->read(call, at, count));
    if (bytes.size() != count || !proof->verify_group(at / group_size, bytes.bytes())) break;
    at += count;
    if (transfer->options->moved) transfer->options->moved(count);
  }
  if (at < window.end) transfer->held = std::min(transfer->held, at);
  co_return at;
}

// How far receive() came, which takes groups from an open answer until it ends or breaks.
struct Received {
  std::uint64_t at = 0;
  Result<> outcome = {};
};
Task<Outcome<Received>> receive(Call call, Transfer* transfer, const crypto::ProofReader* proof,
                                http::ClientResponse response, std::uint64_t at, std::uint64_t end) {
  HeapBytes group(group_size);
  while (at < end) {
    auto slice = co_await transfer->transport().next(call, response);
    if (!slice) co_return Received{at, fail(slice.error())};
    if (slice->empty())
      co_return Received{
          at, fail(ErrorCode::connection_lost, "the answer ended before the object", Side::upstream)};
    ByteView left = slice->bytes();
    while (!left.empty() && at < end) {
      const std::size_t wanted = crypto::group_length(*transfer->size, at / group_size);
      const std::size_t count = std::min(left.size(), wanted - group.size());
      group.append(left.first(count));
      left = left.subspan(count);
      if (group.size() < wanted) break;
      CO_TRY_VOID(verify(*transfer, *proof, at, group.bytes()));
      HeapBytes full(group_size);
      std::swap(full, group);
      CO_TRY_VOID(co_await transfer->destination->write(call, at, std::move(full)));
      at += wanted;
      transfer->transferred += wanted;
      if (transfer->options->moved) transfer->options->moved(wanted);
    }
  }
  co_return Received{at, {}};
}

Task<Outcome<>> fetch(Call call, Transfer* transfer, const crypto::ProofReader* proof, std::uint64_t at,
                      std::uint64_t end) {
  Backoff backoff(transfer->transport().options().backoff);
  while (at < end) {
    std::optional<std::pair<std::uint64_t, std::uint64_t>> range;
    if (at != 0 || end != *transfer->size) range.emplace(at, end - 1);
    CO_TRY(http::ClientResponse response,
           co_await transfer->storage->open_object(call, transfer->address, range));
    if (response.status() != 206 && at != 0)
      co_return fail(Failure(ErrorCode::upstream, "the server does not serve ranges", Side::upstream));
    CO_TRY(const Received got, co_await receive(call, transfer, proof, std::move(response), at, end));
    if (got.at > at) backoff.reset();
    at = got.at;
    if (got.outcome) continue;
    Failure failure(got.outcome.error());
    failure.asked = fmt::format("bytes {}-{} of {}", at, end - 1, transfer->what());
    const auto wait = backoff.next(transfer->transport().machine().shard.random());
    if (!wait || !may_pass(failure)) co_return fail(std::move(failure));
    CO_TRY_VOID(co_await sleep_for(call, *wait));
  }
  co_return Outcome<>{};
}

}  // namespace

Task<Result<HeapBytes>> Destination::read(Call, std::uint64_t, std::size_t) {
  co_return fail(ErrorCode::invalid, "this destination holds nothing");
}
Task<Result<HeapBytes>> FileDestination::read(Call call, std::uint64_t offset, std::size_t count) {
  return read_piece(call, &file_, offset, count);
}
Task<Result<>> FileDestination::write(Call call, std::uint64_t offset, HeapBytes bytes) {
  std::vector<HeapBytes> blocks;
  blocks.push_back(std::move(bytes));
  return file_.write_blocks(call, offset, std::move(blocks), io::Sync::no);
}
Task<Result<>> TextDestination::write(Call, std::uint64_t offset, HeapBytes bytes) {
  CHECK(offset == text_.size());
  if (bytes.size() > cap_ - text_.size()) co_return fail(ErrorCode::body_cap, "the object is too large");
  text_ += as_text(bytes.bytes());
  co_return Result<>{};
}

Task<Outcome<Downloaded>> download(Call call, StorageClient* storage, Address address,
                                   Destination* destination, DownloadOptions options) {
  Transfer transfer{.storage = storage,
                    .address = address,
                    .destination = destination,
                    .options = &options,
                    .size = {},
                    .held = destination->held()};
  for (std::uint64_t first = 0;;) {
    CO_TRY(const crypto::ProofReader proof, co_await read_proof(call, &transfer, first));
    if (!transfer.size) {
      transfer.size = proof.size();
      if (*transfer.size > options.size_max)
        co_return fail(Failure(ErrorCode::body_cap, fmt::format("the object has {} bytes", *transfer.size)));
    }
    if (proof.size() != *transfer.size)
      co_return fail(transfer.wrong("the server claims another size than before"));
    const Window window{first, std::min(*transfer.size, first + window_size)};
    if (*transfer.size == 0) CO_TRY_VOID(verify(transfer, proof, 0, {}));
    CO_TRY(const std::uint64_t at, co_await verify_held(call, &transfer, &proof, window));
    CO_TRY_VOID(co_await fetch(call, &transfer, &proof, at, window.end));
    first = window.end;
    if (first >= *transfer.size) co_return Downloaded{*transfer.size, transfer.transferred};
  }
}

}  // namespace cairn::client
