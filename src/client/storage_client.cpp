#include "client/storage_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "codec/json_reader.h"
#include "codec/json_writer.h"

namespace cairn::client {
namespace {

constexpr std::size_t answer_max = 4 << 20;

std::string object_target(const Address& address) { return "/o/" + format_address(address); }

Failure not_understood(const Transport& transport, const Ask& ask, std::string_view what) {
  Failure failure(ErrorCode::upstream, fmt::format("the server's answer was not understood: {}", what),
                  Side::upstream);
  failure.asked = transport.describe(ask);
  return failure;
}

Result<Stored> parse_stored(codec::JsonReader& reader, std::string_view text) {
  TRY(const codec::JsonValue root, reader.parse(text));
  TRY(codec::JsonObject object, root.object());
  TRY(const std::string_view address, object.required_string("address"));
  TRY(const std::uint64_t size, object.required_uint("size"));
  const auto parsed = parse_address(address);
  if (!parsed) return object.refuse("address", "not an address");
  return Stored{*parsed, size};
}

Result<Listing> parse_listing(codec::JsonReader& reader, std::string_view text) {
  Listing listing;
  TRY(const codec::JsonValue root, reader.parse(text));
  TRY(codec::JsonObject object, root.object());
  TRY(const codec::JsonItems items, object.required_items("objects"));
  for (const codec::JsonValue item : items) {
    TRY(codec::JsonObject one, item.object());
    TRY(const std::string_view address, one.required_string("address"));
    TRY(const std::uint64_t size, one.required_uint("size"));
    TRY(const auto pinned, one.optional_bool("pinned"));
    const auto parsed = parse_address(address);
    if (!parsed) return one.refuse("address", "not an address");
    listing.objects.push_back({.address = *parsed, .size = size, .pinned = pinned});
  }
  TRY(const auto next, object.optional_string("next"));
  if (next) listing.next = *next;
  return listing;
}

// Unreserved characters and `:` stay; everything else is escaped.
std::string escape_query(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~:").find(c) != std::string_view::npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<std::uint64_t> parse_number(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::vector<std::pair<std::uint64_t, std::uint64_t>>> parse_missing(std::string_view text) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    const std::size_t dash = one.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    const auto first = parse_number(one.substr(0, dash));
    const auto last = parse_number(one.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    if (!ranges.empty() && *first <= ranges.back().second) return std::nullopt;
    ranges.emplace_back(*first, *last);
  }
  return ranges;
}

Task<Outcome<>> StorageClient::send_for_nothing(Call call, Ask ask) {
  CO_TRY(const std::string ignored, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  co_return Outcome<>{};
}

Task<Outcome<Stored>> StorageClient::put(Call call, Address address, ByteView bytes, std::string media_type) {
  Ask ask{.method = http::Method::put, .target = object_target(address), .view = bytes, .has_body = true};
  if (!media_type.empty()) ask.fields.emplace_back("Content-Type", std::move(media_type));
  CO_TRY(http::ClientResponse response, co_await transport_.send(call, std::move(ask)));
  const bool fresh = response.status() == 201;
  // The answer is read to its end, so that the connection can be used again; its content is known already.
  for (;;) {
    auto slice = co_await transport_.next(call, response);
    if (!slice || slice->empty()) break;
  }
  co_return Stored{address, bytes.size(), fresh};
}

Task<Outcome<ObjectInfo>> StorageClient::head(Call call, Address address) {
  Ask ask{.method = http::Method::head, .target = object_target(address)};
  const Ask asked = ask;
  auto response = co_await transport_.send(call, std::move(ask));
  if (!response) {
    // The answer to HEAD has no body, and so no words of the server. The server reports a damaged object only
    // when it is asked for its bytes.
    if (response.error().code() == ErrorCode::not_found)
      response.error().message = "the server does not have it";
    if (response.error().code() == ErrorCode::upstream) {
      Ask byte{.target = object_target(address)};
      byte.fields.emplace_back("Range", "bytes=0-0");
      if (auto told = co_await transport_.send_for_text(call, std::move(byte), answer_max); !told)
        co_return fail(std::move(told.error()));
    }
    co_return fail(std::move(response.error()));
  }
  if (!response->head().announced) co_return fail(not_understood(transport_, asked, "no Content-Length"));
  ObjectInfo info{.address = address, .size = response->head().content_length};
  info.media_type = response->head().fields.get(http::FieldName::content_type);
  co_return info;
}

Task<Outcome<Listing>> StorageClient::list(Call call, ListQuery query) {
  std::string target = fmt::format("/o?limit={}", query.limit);
  if (!query.prefix.empty()) target += "&prefix=" + escape_query(query.prefix);
  if (!query.after.empty()) target += "&after=" + escape_query(query.after);
  Ask ask{.target = std::move(target)};
  const Ask asked = ask;
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  codec::JsonReader reader({.bytes = answer_max});
  auto listing = parse_listing(reader, text);
  if (!listing) co_return fail(not_understood(transport_, asked, reader.detail()));
  co_return std::move(*listing);
}

Task<Outcome<>> StorageClient::remove(Call call, Address address) {
  return send_for_nothing(call, {.method = http::Method::del, .target = object_target(address)});
}
Task<Outcome<>> StorageClient::pin(Call call, Address address) {
  return send_for_nothing(call, {.method = http::Method::put, .target = "/pins/" + format_address(address)});
}
Task<Outcome<>> StorageClient::unpin(Call call, Address address) {
  return send_for_nothing(call, {.method = http::Method::del, .target = "/pins/" + format_address(address)});
}

Task<Outcome<std::string>> StorageClient::begin_upload(Call call, std::optional<std::uint64_t> size,
                                                       std::string media_type) {
  Ask ask{.method = http::Method::post, .target = "/uploads", .has_body = true, .repeatable = true};
  codec::JsonWriter json(ask.text);
  json.begin_object();
  if (size) json.field("size", *size);
  if (!media_type.empty()) json.field("media_type", media_type);
  json.end_object().finish();
  ask.fields.emplace_back("Content-Type", "application/json");
  const Ask asked{.method = ask.method, .target = ask.target};
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  codec::JsonReader reader;
  if (auto root = reader.parse(text))
    if (auto object = root->object())
      if (auto id = object->required_string("id"); id && !id->empty()) {
        const bool plain = std::ranges::all_of(*id, [](char c) {
          return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                 c == '_';
        });
        if (plain) co_return std::string(*id);
      }
  co_return fail(not_understood(transport_, asked, reader.detail()));
}

Task<Outcome<>> StorageClient::send_part(Call call, std::string upload, std::uint64_t offset,
                                         ByteView bytes) {
  Ask ask{.method = http::Method::patch,
          .target = "/uploads/" + upload,
          .view = bytes,
          .has_body = true,
          .repeatable = true};
  ask.fields.emplace_back("Upload-Offset", fmt::format("{}", offset));
  ask.fields.emplace_back("Content-Type", "application/octet-stream");
  CO_TRY_VOID(co_await send_for_nothing(call, std::move(ask)));
  co_return Outcome<>{};
}

Task<Outcome<UploadStatus>> StorageClient::upload_status(Call call, std::string upload) {
  Ask ask{.method = http::Method::head, .target = "/uploads/" + upload};
  const Ask asked = ask;
  CO_TRY(const http::ClientResponse response, co_await transport_.send(call, std::move(ask)));
  const http::Fields& fields = response.head().fields;
  const auto contiguous = parse_number(fields.get(http::FieldName::upload_offset));
  if (!contiguous) co_return fail(not_understood(transport_, asked, "no Upload-Offset"));
  UploadStatus status{.contiguous = *contiguous, .missing = {}};
  if (const auto missing = fields.find(http::FieldName::upload_missing)) {
    status.missing = parse_missing(*missing);
    if (!status.missing) co_return fail(not_understood(transport_, asked, "Upload-Missing"));
  }
  co_return status;
}

Task<Outcome<Stored>> StorageClient::commit_upload(Call call, std::string upload, Address address,
                                                   std::uint64_t size) {
  Ask ask{.method = http::Method::post,
          .target = "/uploads/" + upload + "/commit",
          .has_body = true,
          .repeatable = true};
  ask.text = fmt::format("{{\"address\":\"{}\"}}", format_address(address));
  ask.fields.emplace_back("Content-Type", "application/json");
  const Ask asked{.method = ask.method, .target = ask.target};
  auto sent = co_await transport_.send(call, std::move(ask));
  if (!sent && sent.error().code() == ErrorCode::not_found) {
    if (auto there = co_await head(call, address); there && there->size == size)
      co_return Stored{address, size, true};
  }
  if (!sent) co_return fail(std::move(sent.error()));
  const bool fresh = sent->status() == 201;
  auto text = co_await sent->read_text(call.within(transport_.options().stall), answer_max);
  if (!text) co_return fail(Failure(text.error()));
  if (text->empty()) co_return Stored{address, size, fresh};
  codec::JsonReader reader;
  const auto stored = parse_stored(reader, *text);
  if (!stored) co_return fail(not_understood(transport_, asked, reader.detail()));
  if (stored->address != address || stored->size != size) {
    Failure failure(ErrorCode::integrity,
                    fmt::format("the server stored {} instead", format_address(stored->address)),
                    Side::upstream);
    failure.asked = transport_.describe(asked);
    co_return fail(std::move(failure));
  }
  co_return Stored{address, size, fresh};
}

Task<Outcome<>> StorageClient::abandon_upload(Call call, std::string upload) {
  return send_for_nothing(call, {.method = http::Method::del, .target = "/uploads/" + upload});
}

Task<Outcome<http::ClientResponse>> StorageClient::open_proof(Call call, Address address, std::uint64_t first,
                                                              std::uint64_t last) {
  return transport_.send(
      call, {.target = fmt::format("{}/proof?range={}-{}", object_target(address), first, last)});
}

Task<Outcome<http::ClientResponse>> StorageClient::open_object(
    Call call, Address address, std::optional<std::pair<std::uint64_t, std::uint64_t>> range) {
  Ask ask{.target = object_target(address)};
  if (range) ask.fields.emplace_back("Range", fmt::format("bytes={}-{}", range->first, range->second));
  return transport_.send(call, std::move(ask));
}

Task<Outcome<std::string>> StorageClient::status(Call call) {
  return transport_.send_for_text(call, {.target = "/admin/status"}, answer_max);
}

Task<Outcome<>> StorageClient::accept_losses(Call call) {
  return send_for_nothing(call, {.method = http::Method::post, .target = "/admin/accept-loss"});
}

Task<Outcome<ServerVersion>> StorageClient::version(Call call) {
  Ask ask{.target = "/version", .patient = false};
  const Ask asked = ask;
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  codec::JsonReader reader;
  ServerVersion version;
  const auto read = [&]() -> Result<> {
    TRY(const codec::JsonValue root, reader.parse(text));
    TRY(codec::JsonObject object, root.object());
    TRY(const std::string_view service, object.required_string("service"));
    TRY(const std::string_view number, object.required_string("version"));
    version.service = service;
    version.version = number;
    if (auto git = object.optional_string("git"); git && *git) version.git = **git;
    return {};
  };
  if (!read()) co_return fail(not_understood(transport_, asked, reader.detail()));
  co_return version;
}

Task<Outcome<Readiness>> StorageClient::readiness(Call call) {
  Ask ask{.target = "/readyz", .patient = false, .any_answer = true};
  const Ask asked = ask;
  auto text = co_await transport_.send_for_text(call, std::move(ask), answer_max);
  if (!text) co_return fail(std::move(text.error()));
  codec::JsonReader reader;
  Readiness readiness;
  const auto read = [&]() -> Result<> {
    TRY(const codec::JsonValue root, reader.parse(*text));
    TRY(codec::JsonObject object, root.object());
    TRY(readiness.ready, object.required_bool("ready"));
    TRY(readiness.write_ready, object.required_bool("write_ready"));
    TRY(readiness.degraded, object.required_bool("degraded"));
    TRY(const auto missing, object.optional_items("missing"));
    if (missing)
      for (const codec::JsonValue item : *missing) {
        TRY(const std::string_view gate, item.as_string());
        readiness.missing.emplace_back(gate);
      }
    return {};
  };
  if (!read()) co_return fail(not_understood(transport_, asked, reader.detail()));
  readiness.raw = std::move(*text);
  co_return readiness;
}

Task<Outcome<>> StorageClient::revoke_key(Call call, std::string key_id) {
  return send_for_nothing(
      call,
      {.method = http::Method::post, .target = "/admin/keys/" + key_id + "/revoke", .repeatable = true});
}

}  // namespace cairn::client
