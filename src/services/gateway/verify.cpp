// Objects of an upstream that is not believed: which bytes are asked for, so that the answer can be verified.
#include <array>

#include <fmt/format.h>

#include "services/gateway/shard.h"
#include "services/gateway/verified.h"

namespace cairn::gateway {
namespace {

using crypto::group_size;
using http::FieldName;

constexpr int whole_content = 200, partial_content = 206, bad_request = 400, not_satisfiable = 416,
              too_many_requests = 429, not_implemented = 501;

bool is_empty_object(const Address& address) noexcept { return crypto::hash_object({}) == address; }

// False: the range has more groups than the reader takes. `integrity`: it does not lead to the address.
Task<Result<bool>> read_proof(Call call, http::PeerCall* passed, crypto::ProofReader* reader) {
  while (!reader->done()) {
    const Result<io::Piece> piece = co_await passed->next(call);
    if (!piece) co_return fail(told_of(piece.error()));
    const auto used = piece->empty() ? Result<std::size_t>(0) : reader->update(piece->bytes);
    if (!used && used.error().code == ErrorCode::body_cap) co_return false;
    if (!used || *used != piece->size() || piece->empty())
      co_return fail(ErrorCode::integrity, "the proof does not lead to the address", Side::upstream);
  }
  co_return true;
}

}  // namespace

// The bytes that a client asks for, and what proves them. Without a proof the whole object is answered.
struct GatewayShard::Range {
  // The part of a Range field that touches the object, whose size is known now.
  void take(RangeProof of, std::string_view text) {
    const std::uint64_t size = of.reader.size();
    const http::RangeSet asked = http::parse_range(text, size);
    if (asked.kind != http::RangeSet::Kind::ranges || asked.count != 1) return;
    bytes = asked.at[0];
    groups.first = bytes.first / group_size * group_size;
    groups.last = std::min(size, (bytes.last / group_size + 1) * group_size) - 1;
    field = fmt::format("bytes={}-{}", groups.first, groups.last);
    proof.emplace(std::move(of));
  }

  Address address;
  std::optional<RangeProof> proof = {};
  http::ByteRange bytes = {};   // as asked
  http::ByteRange groups = {};  // as fetched
  std::string field = {};       // of the fetch
};

Task<Result<>> GatewayShard::forward_verified(Call call, serve::Request* request, Way* way, Address address) {
  Range range{.address = address};
  if (request->fields().has(FieldName::range)) {
    CO_TRY(const bool is_answered, co_await find_range(call, request, way, &range));
    if (is_answered) co_return Result<>{};
  }
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
// not known, ranges with a condition, and such as have too many groups are answered with the whole object, as
// every server may do.
Task<Result<bool>> GatewayShard::find_range(Call call, serve::Request* request, Way* way, Range* range) {
  const std::string_view text = request->fields().get(FieldName::range);
  const http::RangeSet asked = http::parse_range(text, crypto::object_size_max);
  if (request->fields().repeated(FieldName::range) || request->fields().has(FieldName::if_range) ||
      asked.kind != http::RangeSet::Kind::ranges || asked.count != 1 || asked.from_end)
    co_return false;
  const http::ByteRange bytes = asked.at[0];
  serve::Peer::Handle passed = way->peer()->call();
  const std::string target =
      fmt::format("/o/{}/proof?range={}-{}", format_address(range->address), bytes.first,
                  bytes.last + 1 == crypto::object_size_max ? std::string() : fmt::format("{}", bytes.last));
  CO_TRY(Way::Try one,
         co_await ask(call, request, way, passed.get(), nullptr,
                      {.method = http::Method::get, .target = target, .choosing = Choosing::by_range}));
  const int status = passed->status();
  if (status != whole_content) {
    one.end(Breaker::Verdict::good, context_.machine.shard.now());
    // It cannot answer now: so it says, and would say again.
    if (status == too_many_requests || (status >= 500 && status != not_implemented)) {
      CO_TRY_VOID(pass_answer(*request, std::move(passed)));
      co_return true;
    }
    // There is no such range, which the upstream has to tell (to an open one beyond the end, storage says
    // that it is malformed); or no such proof, so that only the whole object can be verified.
    if (status == not_satisfiable || status == bad_request) range->field = text;
    co_return false;
  }
  RangeProof proof(context_.machine.slab, range->address, bytes);
  const Result<bool> is_proved = co_await read_proof(call, passed.get(), &proof.reader);
  // A proof that was cut off is no answer, and says nothing of the object.
  const bool is_wrong = !is_proved && is_proved.error().code == ErrorCode::integrity;
  if (is_proved || is_wrong)
    one.end(is_wrong ? Breaker::Verdict::wrong : Breaker::Verdict::good, context_.machine.shard.now());
  if (!is_proved) co_return fail(is_proved.error());
  if (*is_proved) range->take(std::move(proof), text);
  co_return false;
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
       content_range != http::format_content_range(range->groups, range->proof->reader.size(), room) ||
       length != range->groups.size())) {
    one.end(Breaker::Verdict::good, now);
    return fail(ErrorCode::upstream, "another range than the one that was asked for", Side::upstream);
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
  const std::string_view ours =
      status == partial_content ? http::format_content_range(range->bytes, range->proof->reader.size(), room)
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
