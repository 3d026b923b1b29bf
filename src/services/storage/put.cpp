#include <fmt/format.h>

#include <algorithm>

#include "codec/json_writer.h"
#include "codec/media_type.h"
#include "services/storage/incoming.h"
#include "services/storage/shard.h"

namespace cairn::storage {
namespace {

using http::FieldName;
using serve::Request;

constexpr std::size_t document_max = 4096;
// An upload that keeps a body which never ended is forgotten after this time: no request takes longer.
constexpr Duration body_ttl = Duration::seconds(600);

}  // namespace

std::string media_type_of(const Request& request) {
  const std::string_view given = request.fields().get(FieldName::content_type);
  // The media type of a browser's form says nothing about the bytes.
  const bool form = given.starts_with("application/x-www-form-urlencoded");
  return std::string(form || !codec::is_media_type(given) ? codec::unknown_media_type : given);
}

Task<Result<>> StorageShard::count_refused(Request& request, Task<Result<>> taking) {
  const Result<> taken = co_await std::move(taking);
  if (taken || !request.fields().has(FieldName::content_encoding)) co_return taken;
  const ErrorCode code = taken.error().code;
  if (code == ErrorCode::decoded_ratio) shared_.metrics.decompress.at(0).add(slot_);
  if (code == ErrorCode::decoded_cap) shared_.metrics.decompress.at(1).add(slot_);
  if (code == ErrorCode::malformed) shared_.metrics.decompress.at(2).add(slot_);
  co_return taken;
}

Task<Result<>> StorageShard::take_document(Call call, Request& request, Document& document) {
  return count_refused(request, read_document(call, request, document));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::read_document(Call call, Request& request, Document& document) {
  serve::Body body(request, machine_.slab, context_.settings.decode);
  CO_TRY(document.text, co_await body.read_all(call, document_max));
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::take_object(Call call, Request& request, Incoming& incoming) {
  const Result<> taken = co_await count_refused(request, read_object(call, request, incoming));
  // A body that did not arrive whole is dropped; the answer does not wait for that.
  if (!taken && incoming.port != nullptr) incoming.port->drop_upload(incoming.token);
  co_return taken;
}

// Hashes and keeps the bytes that arrive. A body of several parts goes to the store part by part, as an
// upload.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::read_object(Call call, Request& request, Incoming& incoming) {
  serve::Body body(request, machine_.slab, context_.settings.decode);
  const auto& fields = request.fields();
  const std::uint64_t said = request.head().content_length;
  if (!fields.has(FieldName::content_encoding)) incoming.said = said;
  const bool small = incoming.said > 0 && incoming.said <= crypto::part_size;
  incoming.owner = owner_of(request);
  incoming.taker = {request.share, request.contested};
  incoming.draft.emplace(shared_.ingest, 0, small ? static_cast<std::size_t>(said) : crypto::part_size,
                         incoming.taker);
  for (;;) {
    CO_TRY(const Buffer slice, co_await body.next(call));
    if (slice.empty()) break;
    shared_.metrics.bytes_in.at().add(slot_, slice.size());
    ByteView rest = slice.bytes();
    while (!rest.empty()) {
      if (incoming.draft->full()) CO_TRY_VOID(co_await flush_part(call, incoming, media_type_of(request)));
      CO_TRY(const std::size_t taken, incoming.draft->add(rest));
      rest = rest.subspan(taken);
      incoming.size += taken;
    }
  }
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::flush_part(Call call, Incoming& incoming, std::string media_type) {
  if (incoming.port == nullptr) {
    CO_TRY(const store::SetPort::Begun began,
           co_await ports_->begin_upload(call.shield(), machine_.shard.random().next(),
                                         {.size = incoming.said,
                                          .media_type = std::move(media_type),
                                          .ttl = body_ttl,
                                          .owner = incoming.owner}));
    incoming.port = began.port;
    incoming.token = began.upload.token;
  }
  store::PartRecord part;
  store::Draft::Taken taken = incoming.draft->take_part(incoming.token, part);
  CO_TRY_VOID(co_await incoming.port->put_part(call, std::move(part), std::move(taken)));
  incoming.draft.emplace(shared_.ingest, ++incoming.parts, crypto::part_size, incoming.taker);
  co_return Result<>{};
}

Task<Result<>> StorageShard::put_at(Call call, Request& request, Incoming& incoming) {
  return put(call, request, incoming, request.route.address);
}
Task<Result<>> StorageShard::put_anywhere(Call call, Request& request, Incoming& incoming) {
  return put(call, request, incoming, std::nullopt);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::put(Call call, Request& request, Incoming& incoming,
                                 std::optional<Address> expected) {
  const auto wrong = [] { return fail(ErrorCode::conflict, "the bytes have another address", Side::client); };
  if (incoming.port != nullptr) {
    Result<store::Outcome> made = fail(ErrorCode::internal, "not decided");
    Result<> flushed;
    if (incoming.draft->size() > 0) flushed = co_await flush_part(call, incoming, {});
    if (flushed)
      made = co_await incoming.port->commit_upload(call, incoming.token, expected, media_type_of(request));
    else
      made = fail(flushed.error());
    if (!made) {
      incoming.port->drop_upload(incoming.token);
      co_return fail(made.error());
    }
    answer_stored(request, *made);
    co_return Result<>{};
  }
  Address address;
  store::Draft::Taken taken = incoming.draft->take_object(media_type_of(request), address);
  if (expected && *expected != address) co_return wrong();
  CO_TRY(store::StorePort * port, co_await ports_->for_put(call, address));
  CO_TRY(const store::Outcome stored, co_await port->put(call, address, std::move(taken)));
  answer_stored(request, stored);
  co_return Result<>{};
}

void StorageShard::answer_stored(Request& request, const store::Outcome& outcome) {
  http::Response& response = request.response;
  const std::string address = format_address(outcome.address);
  response.status = outcome.existed ? 200 : 201;
  std::string value;
  value.reserve(address.size() + 3);
  response.add_field("Location", value.append("/o/").append(address));
  response.add_field("ETag", value.assign(1, '"').append(address).append(1, '"'));
  response.text.reserve(128);  // once, not as it grows
  codec::JsonWriter json(response.text);
  json.begin_object().field("address", address).field("size", outcome.size).end_object().finish();
  response.answer_text("application/json");
  shared_.metrics.put_latency.at().observe(slot_, machine_.shard.now() - request.started());
}

}  // namespace cairn::storage
