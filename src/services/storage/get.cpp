#include <fmt/format.h>

#include <algorithm>

#include "codec/json_writer.h"
#include "crypto/outboard.h"
#include "http/conditional.h"
#include "http/multipart.h"
#include "http/query.h"
#include "serve/answer.h"
#include "services/storage/shard.h"

namespace cairn::storage {
namespace {

using http::FieldName;
using serve::Request;

constexpr http::FieldLines object_lines =
    "Accept-Ranges: bytes\r\n"
    "Cache-Control: public, max-age=31536000, immutable\r\n"
    "Vary: Accept-Encoding\r\n";
// An object that a browser would run must not run as a page of this server: it would have the server's
// origin, and with it the power of the user's tokens. It may use only its own pictures and styles.
constexpr http::FieldLines sandbox_lines =
    "Content-Security-Policy: sandbox; default-src 'none'; img-src 'self' data:; media-src 'self' data:; "
    "font-src 'self' data:; style-src 'self' 'unsafe-inline'; form-action 'none'; base-uri 'none'\r\n";
constexpr std::uint64_t list_limit_default = 1000, list_limit_max = 1000;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 19) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

}  // namespace

std::optional<StorageShard::Wanted> StorageShard::answer_head(Request& request,
                                                              const store::ObjectFacts& facts) {
  http::Response& response = request.response;
  const auto& fields = request.fields();
  response.add_field("ETag", facts.etag);
  const http::Verdict verdict = http::evaluate(fields, request.head().method,
                                               {.etag = facts.etag, .last_modified = {}, .exists = true});
  if (verdict.outcome == http::Precondition::failed) {
    serve::answer_error(request,
                        {ErrorCode::precondition_failed, "the object has another tag", Side::client});
    return std::nullopt;
  }
  Wanted wanted;
  wanted.length = facts.size;
  if (verdict.range_applies && verdict.outcome == http::Precondition::proceed)
    wanted.ranges = http::parse_range(fields.get(FieldName::range), facts.size);
  std::array<char, http::content_range_size_max> room;
  if (wanted.ranges.kind == http::RangeSet::Kind::unsatisfiable) {
    response.add_field("Content-Range", http::format_unsatisfied_range(facts.size, room));
    serve::answer_error(
        request, {ErrorCode::range_not_satisfiable, "the range is outside of the object", Side::client});
    return std::nullopt;
  }
  response.add_lines(object_lines);  // not of an error, which nobody is to keep for a year
  if (facts.active) response.add_lines(sandbox_lines);
  if (verdict.outcome == http::Precondition::not_modified) {
    response.status = 304;
    return std::nullopt;
  }
  if (wanted.ranges.kind == http::RangeSet::Kind::ranges) {
    response.status = 206;
    if (wanted.ranges.count == 1) {
      response.add_field("Content-Range", http::format_content_range(wanted.ranges.at[0], facts.size, room));
      wanted.length = wanted.ranges.at[0].size();
    }
  }
  return wanted;
}

// Answers objects that are in memory here, on the connection's own shard.
bool StorageShard::try_get(Request& request) {
  const Address& address = request.route.address;
  const bool ranged = request.fields().has(FieldName::range);
  if (!ranged) {
    store::GroupCache::Ref first = shared_.cache->find(address, 0);
    if (!first) return false;
    const store::ObjectFacts& facts = first.facts();
    if (facts.size <= crypto::group_size) {
      const auto wanted = answer_head(request, facts);
      if (!wanted) return true;
      shared_.metrics.hits.at().add(slot_);
      count_latency(request, *wanted);
      shared_.metrics.bytes_out.at().add(slot_, facts.size);
      const std::string_view type = facts.media_type;
      if (const auto offset = first.file_offset()) {
        request.response.answer_file(type, shared_.cache->file(), *offset, facts.size,
                                     std::move(first).to_hold(true));
      } else {
        const std::string_view bytes = as_text(first.bytes());
        request.response.answer_held(type, bytes, std::move(first).to_hold(false));
      }
      return true;
    }
  }
  auto facts = shared_.cache->find_facts(address);
  if (!facts) return false;
  // The first group decides: when it is in memory, the head can go out. Later groups may come while sending.
  std::uint64_t group = 0;
  if (ranged) {
    const http::RangeSet ranges = http::parse_range(request.fields().get(FieldName::range), facts->size);
    if (ranges.kind == http::RangeSet::Kind::ranges) group = ranges.at[0].first / crypto::group_size;
  }
  ObjectSource::First first;
  first.bytes.ref = shared_.cache->find(address, group);
  if (!first.bytes.ref) return false;
  if (const auto wanted = answer_head(request, *facts)) {
    shared_.metrics.hits.at().add(slot_);
    count_latency(request, *wanted);
    answer_body(request, *wanted, address, std::move(facts), {}, std::move(first));
  }
  return true;
}

// The latency until the first bytes are there, from memory or from the disk.
void StorageShard::count_latency(const Request& request, const Wanted& wanted) noexcept {
  const bool ranged = wanted.ranges.kind == http::RangeSet::Kind::ranges;
  shared_.metrics.get_latency
      .at(0, !ranged                    ? RangeLabel::whole
             : wanted.ranges.count == 1 ? RangeLabel::single
                                        : RangeLabel::multi)
      .observe(slot_, machine_.shard.precise_now() - request.started());
}

void StorageShard::answer_body(Request& request, const Wanted& wanted, Address address,
                               std::shared_ptr<const store::ObjectFacts> facts, store::SetPort::Found found,
                               std::optional<ObjectSource::First> first) {
  http::Response& response = request.response;
  const std::uint64_t size = facts->size;
  auto source = std::make_unique<ObjectSource>(library(), address, facts, std::move(found));
  // Owned by the source, which lives as long as the answer.
  std::string_view type = facts->media_type;
  std::uint64_t length = wanted.length;
  std::uint64_t start = 0;
  if (wanted.ranges.kind == http::RangeSet::Kind::ranges && wanted.ranges.count > 1) {
    const http::Multipart parts(machine_.shard.random().next(), facts->media_type, size,
                                wanted.ranges.ranges());
    for (std::size_t i = 0; i < wanted.ranges.count; ++i) {
      source->add(parts.head(i));
      source->add(wanted.ranges.at[i]);
    }
    source->add(parts.end());
    length = parts.content_length();
    source->set_content_type(parts.content_type());
    type = source->content_type();
    start = wanted.ranges.at[0].first;
  } else if (wanted.ranges.kind == http::RangeSet::Kind::ranges) {
    source->add(wanted.ranges.at[0]);
    start = wanted.ranges.at[0].first;
  } else if (size > 0) {
    source->add(http::ByteRange{0, size - 1});
  }
  if (first && size > 0) source->prime(start / crypto::group_size, std::move(*first));
  shared_.metrics.bytes_out.at().add(slot_, length);
  response.answer_sized(type, std::move(source), length);
}

Task<Result<>> StorageShard::get(Call call, Request& request) {
  const Address address = request.route.address;
  shared_.metrics.misses.at().add(slot_);
  // A read that cannot begin in a part of its time is refused, so that reads that have begun have the rest.
  LaneUse lanes;
  lanes.begin_within =
      std::max(Duration{(call.deadline() - machine_.shard.now()).ns / 4}, Duration::millis(500));
  call = call.in_lanes(lanes);
  auto looked = co_await ports_->find(call, address);
  if (!looked) {
    if (looked.error().code == ErrorCode::integrity) shared_.metrics.integrity.at(0).add(slot_);
    co_return fail(looked.error());
  }
  store::SetPort::Found found = std::move(*looked);
  if (found.port == nullptr) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  auto facts = found.object->facts;
  const auto wanted = answer_head(request, *facts);
  if (!wanted) co_return Result<>{};
  const bool single = wanted->ranges.kind == http::RangeSet::Kind::ranges && wanted->ranges.count == 1;
  const bool multi = wanted->ranges.kind == http::RangeSet::Kind::ranges && wanted->ranges.count > 1;
  std::optional<ObjectSource::First> first;
  if (request.head().method != http::Method::head) {
    const http::ByteRange range =
        single || multi ? wanted->ranges.at[0] : http::ByteRange{0, facts->size - 1};
    const crypto::GroupSpan groups =
        facts->size == 0 ? crypto::GroupSpan{0, 1} : crypto::groups_of_bytes(range.first, range.last);
    first.emplace();
    auto read = co_await found.port->read_groups(call, found.object, groups.first, groups.end, &first->ahead);
    if (!read) {
      request.response.clear();
      if (read.error().code == ErrorCode::integrity) shared_.metrics.integrity.at(0).add(slot_);
      co_return fail(read.error());
    }
    first->bytes = std::move(*read);
  }
  count_latency(request, *wanted);
  answer_body(request, *wanted, address, std::move(facts), std::move(found), std::move(first));
  co_return Result<>{};
}

Task<Result<>> StorageShard::proof(Call call, Request& request) {
  std::array<char, 256> room;
  CO_TRY(const http::Query query, http::parse_query(request.head().query(), room));
  CO_TRY_VOID(query.allow_only({"range"}));
  CO_TRY(store::SetPort::Found found, co_await ports_->find(call, request.route.address));
  if (found.port == nullptr) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  const std::uint64_t size = found.object->entry.size;
  std::uint64_t first = 0, last = size == 0 ? 0 : size - 1;
  if (const auto range = query.find("range")) {
    const std::size_t dash = range->find('-');
    if (dash == std::string_view::npos)
      co_return fail(ErrorCode::malformed, "range must be FIRST-LAST", Side::client);
    const auto from = parse_number(range->substr(0, dash));
    const auto to = dash + 1 == range->size() ? std::optional(last) : parse_number(range->substr(dash + 1));
    if (!from || !to || *from > *to)
      co_return fail(ErrorCode::malformed, "range must be FIRST-LAST", Side::client);
    if (*from >= std::max<std::uint64_t>(size, 1)) {
      std::array<char, http::content_range_size_max> text;
      request.response.add_field("Content-Range", http::format_unsatisfied_range(size, text));
      serve::answer_error(
          request, {ErrorCode::range_not_satisfiable, "the range is outside of the object", Side::client});
      co_return Result<>{};
    }
    first = *from;
    last = std::min(*to, last);
  }
  CO_TRY(auto parts, co_await found.port->part_hashes(call, found.object));
  request.response.add_field("ETag", found.object->facts->etag);
  request.response.add_field("Cache-Control", "public, max-age=31536000, immutable");
  auto source = std::make_unique<ProofSource>(
      std::move(found), machine_.slab, context_.settings.request_timeout, first, last, std::move(parts));
  request.response.answer_sized("application/vnd.cairn.outboard", std::move(source),
                                crypto::proof_size(size, first, last));
  co_return Result<>{};
}

Task<Result<>> StorageShard::list(Call call, Request& request) {
  std::array<char, 512> room;
  CO_TRY(const http::Query query, http::parse_query(request.head().query(), room));
  CO_TRY_VOID(query.allow_only({"prefix", "after", "limit"}));
  std::uint64_t limit = list_limit_default;
  if (const auto text = query.find("limit")) {
    const auto asked = parse_number(*text);
    if (!asked || *asked == 0 || *asked > list_limit_max)
      co_return fail(ErrorCode::malformed, "limit must be 1..1000", Side::client);
    limit = *asked;
  }
  std::optional<Address> after;
  if (const auto text = query.find("after"); text && !text->empty()) {
    after = parse_address(*text);
    if (!after) co_return fail(ErrorCode::malformed, "after must be an address", Side::client);
  }
  // Hex digits of a prefix, with or without `b3:`; an odd one is the first half of a byte.
  std::string digits;
  if (const auto text = query.find("prefix")) {
    std::string_view given = *text;
    if (given.starts_with("b3:")) given.remove_prefix(3);
    digits.assign(given);
    for (char& c : digits) {
      if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
      const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      if (!hex || digits.size() > 64)
        co_return fail(ErrorCode::malformed, "prefix must be the beginning of an address", Side::client);
    }
  }
  std::vector<store::Listed> found;
  bool more = true;
  std::optional<Address> from = after;
  const std::size_t whole = digits.size() / 2;
  std::string bytes(whole, '\0');
  parse_hex_to(std::string_view(digits).substr(0, whole * 2),
               {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
  while (found.size() <= limit && more) {
    CO_TRY(const auto page, co_await ports_->list(call, bytes, from, limit + 1));
    more = page.size() == limit + 1;
    for (const store::Listed& one : page) {
      from = one.address;
      if (digits.size() % 2 == 0 || format_hex(one.address.bytes).starts_with(digits)) found.push_back(one);
    }
  }
  const bool cut = found.size() > limit;
  if (cut) found.resize(limit);
  codec::JsonWriter json(request.response.text);
  json.begin_object().key("objects").begin_array();
  for (const store::Listed& one : found)
    json.begin_object()
        .field("address", format_address(one.address))
        .field("size", one.size)
        .field("pinned", one.pinned)
        .end_object();
  json.end_array();
  if (cut) json.field("next", format_address(found.back().address));
  json.end_object().finish();
  request.response.answer_text("application/json");
  co_return Result<>{};
}

}  // namespace cairn::storage
