#include <fmt/format.h>

#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "codec/media_type.h"
#include "services/storage/incoming.h"
#include "services/storage/shard.h"

namespace cairn::storage {
namespace {

using http::FieldName;
using serve::Request;

// As many gaps as fit into an answer's head. A client that has filled them asks again.
constexpr std::size_t missing_max = 64;

Result<Ulid> token_of(const Request& request) {
  const auto token = parse_ulid(request.route.at[0].text);
  if (!token) return fail(ErrorCode::not_found, "no such upload", Side::client);
  return *token;
}

// The document's media type; empty when it names none.
Result<std::string> media_type_in(codec::JsonObject& object) {
  TRY(const auto given, object.optional_string("media_type"));
  if (given && !codec::is_media_type(*given))
    return fail(ErrorCode::malformed, "media_type must be 1 to 255 printable characters", Side::client);
  return std::string(given.value_or(""));
}

}  // namespace

store::UploadOwner owner_of(const Request& request) {
  const serve::Principal* who = request.principal();
  return who != nullptr ? store::UploadOwner{who->nonce, who->tenant} : store::UploadOwner{};
}

// Another tenant's upload is answered as not found. With open access every upload belongs to every caller.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<store::SetPort::FoundUpload>> StorageShard::find_upload(Call call, const Request& request,
                                                                    Ulid token) {
  CO_TRY(store::SetPort::FoundUpload upload, co_await ports_->find_upload(call, token));
  const std::string& tenant = upload.entry.owner.tenant;
  if (!tenant.empty() && request.principal() != nullptr && request.principal()->tenant != tenant)
    co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  co_return upload;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::begin_upload(Call call, Request& request, Document& document) {
  std::uint64_t size = 0;
  std::string media_type;
  if (!document.text.empty()) {
    codec::JsonReader reader;
    CO_TRY(const codec::JsonValue root, reader.parse(document.text));
    CO_TRY(codec::JsonObject object, root.object());
    CO_TRY(const auto said, object.optional_uint("size"));
    CO_TRY(media_type, media_type_in(object));
    CO_TRY_VOID(object.finish());
    size = said.value_or(0);
    if (said && size == 0) co_return fail(ErrorCode::malformed, "size must not be 0", Side::client);
  }
  if (size > store::largest_object)
    co_return fail(ErrorCode::body_cap, "larger than any object may be", Side::client);
  CO_TRY(const store::SetPort::Begun made,
         co_await ports_->begin_upload(
             call, machine_.shard.random().next(),
             {.size = size, .media_type = std::move(media_type), .ttl = {}, .owner = owner_of(request)}));
  const store::Outcome& began = made.upload;
  http::Response& response = request.response;
  const std::string id = format_ulid(began.token);
  response.status = 201;
  response.add_field("Location", "/uploads/" + id);
  codec::JsonWriter json(response.text);
  json.begin_object()
      .field("id", id)
      .field("expires_at", format_rfc3339(began.expires))
      .end_object()
      .finish();
  response.answer_text("application/json");
  co_return Result<>{};
}

Task<Result<>> StorageShard::take_part(Call call, Request& request, Incoming& incoming) {
  return count_refused(request, read_part(call, request, incoming));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::read_part(Call call, Request& request, Incoming& incoming) {
  CO_TRY(incoming.token, token_of(request));
  const auto offset = request.fields().find(FieldName::upload_offset);
  std::uint64_t at = 0;
  bool good = offset && !offset->empty() && offset->size() <= 19;
  for (const char c : offset.value_or("")) {
    good = good && c >= '0' && c <= '9';
    if (good) at = at * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (!good || at % crypto::part_size != 0 || at >= store::largest_object)
    co_return fail(ErrorCode::malformed, "Upload-Offset must be a multiple of 1 MiB", Side::client);
  incoming.draft.emplace(shared_.ingest, at / crypto::part_size, crypto::part_size,
                         store::Taker{request.share, request.contested});
  serve::Body body(request, machine_.slab, context_.settings.decode);
  for (;;) {
    CO_TRY(const Buffer slice, co_await body.next(call));
    if (slice.empty()) break;
    shared_.metrics.bytes_in.at().add(slot_, slice.size());
    CO_TRY(const std::size_t taken, incoming.draft->add(slice.bytes()));
    if (taken < slice.size()) co_return fail(ErrorCode::body_cap, "a part has at most 1 MiB", Side::client);
  }
  if (incoming.draft->size() == 0)
    co_return fail(ErrorCode::malformed, "a part has at least one byte", Side::client);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::put_part(Call call, Request& request, Incoming& incoming) {
  CO_TRY(const store::SetPort::FoundUpload upload, co_await find_upload(call, request, incoming.token));
  store::PartRecord part;
  store::Draft::Taken taken = incoming.draft->take_part(incoming.token, part);
  CO_TRY(const store::Outcome stored,
         co_await upload.port->put_part(call, std::move(part), std::move(taken)));
  request.response.status = 204;
  request.response.add_number("Upload-Offset", stored.size);
  co_return Result<>{};
}

Task<Result<>> StorageShard::upload_status(Call call, Request& request) {
  CO_TRY(const Ulid token, token_of(request));
  CO_TRY(const store::SetPort::FoundUpload upload, co_await find_upload(call, request, token));
  CO_TRY(const auto found, co_await upload.port->upload_state(call, token));
  if (!found) co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  const store::UploadState& state = *found;
  http::Response& response = request.response;
  response.status = 200;
  response.add_number("Upload-Offset", state.contiguous);
  if (state.size != 0) response.add_number("Upload-Length", state.size);
  std::string missing;
  for (std::size_t i = 0; i < state.missing.size() && i < missing_max && missing.size() < 700; ++i)
    missing += fmt::format("{}{}-{}", i == 0 ? "" : ",", state.missing[i].first, state.missing[i].second);
  if (!missing.empty()) response.add_field("Upload-Missing", missing);
  if (state.committed) response.add_field("Location", "/o/" + format_address(*state.committed));
  response.add_field("Cache-Control", "no-store");
  co_return Result<>{};
}

Task<Result<>> StorageShard::abort_upload(Call call, Request& request) {
  CO_TRY(const Ulid token, token_of(request));
  CO_TRY(const store::SetPort::FoundUpload upload, co_await find_upload(call, request, token));
  CO_TRY_VOID(co_await upload.port->abort_upload(call, token));
  request.response.status = 204;
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> StorageShard::commit_upload(Call call, Request& request, Document& document) {
  CO_TRY(const Ulid token, token_of(request));
  std::optional<Address> address;
  std::string media_type;
  if (!document.text.empty()) {
    codec::JsonReader reader;
    CO_TRY(const codec::JsonValue root, reader.parse(document.text));
    CO_TRY(codec::JsonObject object, root.object());
    CO_TRY(const auto text, object.optional_string("address"));
    CO_TRY(media_type, media_type_in(object));
    CO_TRY_VOID(object.finish());
    if (text) {
      address = parse_address(*text);
      if (!address)
        co_return fail(ErrorCode::malformed, "address must be b3: and 64 hex digits", Side::client);
    }
  }
  CO_TRY(const store::SetPort::FoundUpload upload, co_await find_upload(call, request, token));
  CO_TRY(const store::Outcome made,
         co_await upload.port->commit_upload(call, token, address, std::move(media_type)));
  answer_stored(request, made);
  co_return Result<>{};
}

}  // namespace cairn::storage
