// Manifests of up to 1 MiB, kept beside the names.
#include "codec/json_writer.h"
#include "crypto/blake3.h"
#include "format/manifest.h"
#include "runtime/pool.h"
#include "services/index/asked.h"
#include "services/index/incoming.h"

namespace cairn::index {

using serve::Request;

namespace {

constexpr http::FieldLines forever = "Cache-Control: public, max-age=31536000, immutable\r\n";

io::Hold hold_of(std::shared_ptr<const HeapBytes> owner) {
  return {new std::shared_ptr<const HeapBytes>(std::move(owner)),
          [](void* object) noexcept { delete static_cast<std::shared_ptr<const HeapBytes>*>(object); }};
}

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::take_manifest(Call call, Request& request, Incoming& incoming) {
  return take_body(call, request, incoming, manifest_kept_max);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::put_manifest(Call call, Request& request, Incoming& incoming) {
  const Address address = request.route.address;
  struct Checked {
    Address address;
    bool is_manifest = false;
    HeapBytes bytes;
  };
  const auto document = std::make_shared<const std::string>(std::move(incoming.document));
  CO_TRY(Checked checked, co_await run(machine_.pool, call, Lane::cpu, [document] {
           HeapBytes bytes(document->size());
           bytes.append(as_bytes(*document));
           return Checked{crypto::hash_object(bytes.bytes()),
                          format::decode_manifest(bytes.bytes()).has_value(), std::move(bytes)};
         }));
  if (checked.address != address)
    co_return fail(ErrorCode::conflict, "the bytes have another address", Side::client);
  if (!checked.is_manifest)
    co_return fail(ErrorCode::malformed, "the bytes are not a manifest in its one encoding", Side::client);
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::put_manifest);
  mutation->by = request.who();
  mutation->manifest = address;
  const std::size_t size = checked.bytes.size();
  mutation->bytes = std::move(checked.bytes);
  auto done = co_await port_->submit(call, std::move(mutation));
  if (!done) co_return turned_away(done.error());
  const std::string text = format_address(address);
  request.response.status = done->existed ? 200 : 201;
  request.response.add_field("Location", "/manifests/" + text);
  request.response.add_field("ETag", '"' + text + '"');
  codec::JsonWriter json(request.response.text);
  json.begin_object().field("address", text).field("size", size).end_object().finish();
  request.response.answer_text("application/json");
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::manifest(Call call, Request& request) {
  const Address address = request.route.address;
  const auto read = co_await port_->read_manifest(call, address);
  if (!read && read.error().code == ErrorCode::integrity) shared_.metrics.integrity.at(0).add(slot_);
  if (!read) co_return fail(read.error());
  const std::shared_ptr<const HeapBytes>& bytes = *read;
  const std::string tag = '"' + format_address(address) + '"';
  request.response.add_field("ETag", tag);
  request.response.add_lines(forever);
  if (settle_conditions(request, tag)) co_return Result<>{};
  const std::string_view text = as_text(bytes->bytes());
  request.response.answer_held(format::manifest_media_type, text, hold_of(bytes));
  co_return Result<>{};
}

}  // namespace cairn::index
