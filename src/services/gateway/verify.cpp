// Objects of an upstream that is not believed: which bytes are asked for, so that the answer can be verified.
#include <array>

#include <fmt/format.h>

#include "services/gateway/shard.h"
#include "services/gateway/verified.h"

namespace cairn::gateway {
namespace {

using crypto::group_size;
using http::FieldName;

constexpr int whole_content = 200, partial_content = 206;

bool is_empty_object(const Address& address) noexcept { return crypto::hash_object({}) == address; }

}  // namespace

// The bytes that a client asks for, and what proves them. Without a proof the whole object is answered.
struct GatewayShard::Range {
  Address address;
  std::optional<crypto::ProofReader> proof = {};
  http::ByteRange bytes = {};   // as asked
  http::ByteRange groups = {};  // as fetched
  std::string field = {};       // of the fetch
};

Task<Result<>> GatewayShard::forward_verified(Call call, serve::Request* request, Way* way, Address address) {
  Range range{.address = address};
  if (request->fields().has(FieldName::range)) CO_TRY_VOID(co_await find_range(call, request, way, &range));
  serve::Peer::Handle passed = way->peer()->call();
  CO_TRY(Way::Try one, co_await ask(call, request, way, passed.get(), nullptr,
                                    {.method = http::Method::get,
                                     .target = request->head().origin_form(),
                                     .choosing = Choosing::whole,
                                     .range = range.field}));
  one.give_place_back();  // the client sets the pace of what follows
  co_return answer_verified(*request, std::move(one), std::move(passed), &range);
}

// One range of an object whose proof can be had. Several ranges, the last bytes of an object whose size is
// not known, and ranges with a condition are answered with the whole object, as every server may do.
Task<Result<>> GatewayShard::find_range(Call call, serve::Request* request, Way* way, Range* range) {
  const std::string_view text = request->fields().get(FieldName::range);
  const bool suffix = text.size() > 6 && text.substr(6).starts_with('-');
  http::RangeSet asked = http::parse_range(text, crypto::object_size_max);
  if (request->fields().repeated(FieldName::range) || request->fields().has(FieldName::if_range) ||
      asked.kind != http::RangeSet::Kind::ranges || asked.count != 1 || suffix)
    co_return Result<>{};
  serve::Peer::Handle passed = way->peer()->call();
  const std::string target = fmt::format(
      "/o/{}/proof?range={}-{}", format_address(range->address), asked.at[0].first,
      asked.at[0].last + 1 == crypto::object_size_max ? std::string() : fmt::format("{}", asked.at[0].last));
  CO_TRY(Way::Try one,
         co_await ask(call, request, way, passed.get(), nullptr,
                      {.method = http::Method::get, .target = target, .choosing = Choosing::by_range}));
  const auto judged = [&](Breaker::Verdict verdict) { one.end(verdict, context_.machine.shard.now()); };
  if (passed->status() != whole_content) {  // no such object or range, or no right to it: that is the answer
    judged(Breaker::Verdict::good);
    range->field = text;
    co_return Result<>{};
  }
  crypto::ProofReader reader(range->address, asked.at[0].first, asked.at[0].last);
  while (!reader.done()) {
    const Result<io::Piece> piece = co_await passed->next(call);
    if (!piece) co_return fail(told_of(piece.error()));
    const auto used = piece->empty() ? Result<std::size_t>(0) : reader.update(piece->bytes);
    if (!used && used.error().code == ErrorCode::body_cap) {
      judged(Breaker::Verdict::good);
      co_return Result<>{};
    }
    if (!used || *used != piece->size() || piece->empty()) {
      judged(Breaker::Verdict::wrong);
      co_return fail(ErrorCode::integrity, "the proof does not lead to the address", Side::upstream);
    }
  }
  judged(Breaker::Verdict::good);
  asked = http::parse_range(text, reader.size());
  if (asked.kind != http::RangeSet::Kind::ranges || asked.count != 1) co_return Result<>{};
  range->bytes = asked.at[0];
  range->groups.first = asked.at[0].first / group_size * group_size;
  range->groups.last = std::min(reader.size(), (asked.at[0].last / group_size + 1) * group_size) - 1;
  range->field = fmt::format("bytes={}-{}", range->groups.first, range->groups.last);
  range->proof = std::move(reader);
  co_return Result<>{};
}

// A try that is neither wrong nor still to be proved has answered: that is good.
Result<> GatewayShard::answer_verified(serve::Request& request, Way::Try one, serve::Peer::Handle passed,
                                       Range* range) {
  const Address& address = range->address;
  const Instant now = context_.machine.shard.now();
  http::Response& response = request.response;
  const int status = passed->status();
  const auto length = passed->length();
  const bool has_object = status == whole_content || status == partial_content;
  const std::string content_range(passed->find_field("Content-Range").value_or(""));
  const bool is_coded = passed->find_field("Content-Encoding").has_value();
  std::array<char, http::content_range_size_max> room;
  if (status == partial_content &&
      (!range->proof ||
       content_range != http::format_content_range(range->groups, range->proof->size(), room) ||
       length != range->groups.size())) {
    one.end(Breaker::Verdict::good, now);
    return fail(ErrorCode::integrity, "another range than the one that was asked for", Side::upstream);
  }
  const bool is_success = status >= 200 && status < 300;
  if (is_success && (!has_object || !length || is_coded)) {
    one.end(Breaker::Verdict::good, now);
    return fail(ErrorCode::upstream, "an object that cannot be verified", Side::upstream);
  }
  if (status == whole_content && *length == 0 && !is_empty_object(address)) {
    one.end(Breaker::Verdict::wrong, now);
    return fail(ErrorCode::integrity, "the bytes are not those of the address", Side::upstream);
  }
  const std::string_view ours = status == partial_content
                                    ? http::format_content_range(range->bytes, range->proof->size(), room)
                                    : std::string_view();
  if (!pass_head(*passed, response, ours))
    return fail(ErrorCode::upstream, "the answer's head cannot be passed on");
  const std::string_view type = response.content_type;
  Slab& slab = context_.machine.slab;
  if (status == partial_content) {
    response.answer_sized(type,
                          std::make_unique<RangeSource>(std::move(passed), std::move(one), slab,
                                                        std::move(*range->proof), range->bytes),
                          range->bytes.size());
  } else if (status == whole_content && *length > 0) {
    response.answer_sized(
        type, std::make_unique<WholeSource>(std::move(passed), std::move(one), slab, address, *length),
        *length);
  } else {
    one.end(Breaker::Verdict::good, now);
    answer_with(response, std::move(passed));
  }
  return {};
}

}  // namespace cairn::gateway
