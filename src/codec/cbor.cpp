#include "codec/cbor.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"

namespace cairn::codec {
namespace {

constexpr unsigned char simple_false = 0xF4;
constexpr unsigned char simple_true = 0xF5;
constexpr unsigned char simple_null = 0xF6;

std::unexpected<Error> malformed(const char* context) noexcept {
  return fail(ErrorCode::malformed, context, Side::client);
}

// The smallest argument that needs a head with `width` bytes after the first.
constexpr std::uint64_t smallest_of_width(unsigned width) {
  return width == 1 ? 24 : std::uint64_t{1} << (width * 4);
}
static_assert(smallest_of_width(2) == 0x100 && smallest_of_width(4) == 0x1'0000 &&
              smallest_of_width(8) == 0x1'0000'0000);

}  // namespace

bool CborNesting::at_key() const noexcept {
  return depth_ > 0 && frames_[depth_ - 1].is_map && frames_[depth_ - 1].left % 2 == 0;
}

bool CborNesting::in_order(ByteView all, ByteView key) const noexcept {
  const Frame& frame = frames_[depth_ - 1];
  return std::ranges::lexicographical_compare(all.subspan(frame.key_begin, frame.key_end - frame.key_begin),
                                              key);
}

void CborNesting::count_item() noexcept {
  begun_ = true;
  // The last item of a container completes it, and that may be the last item of the one around it.
  while (depth_ > 0 && frames_[depth_ - 1].left == 0) --depth_;
}

void CborNesting::add(std::size_t begin, std::size_t end) noexcept {
  if (at_key()) {
    frames_[depth_ - 1].key_begin = begin;
    frames_[depth_ - 1].key_end = end;
  }
  if (depth_ > 0) --frames_[depth_ - 1].left;
  count_item();
}

void CborNesting::open(bool is_map, std::uint64_t items) noexcept {
  CHECK(can_open());
  if (depth_ > 0) --frames_[depth_ - 1].left;
  frames_[depth_++] = Frame{.left = items, .is_map = is_map};
  count_item();
}

void CborEncoder::append_head(unsigned major, std::uint64_t argument) {
  unsigned width = 0;
  for (unsigned w : {1u, 2u, 4u, 8u})
    if (argument >= smallest_of_width(w)) width = w;
  unsigned info =
      width == 0 ? static_cast<unsigned>(argument) : 24 + static_cast<unsigned>(std::countr_zero(width));
  out_ += static_cast<char>(major << 5 | info);
  for (unsigned i = width; i-- > 0;) out_ += static_cast<char>(argument >> (8 * i) & 0xFF);
}

void CborEncoder::end_item(std::size_t begin, bool may_be_key) {
  CHECK(!nesting_.complete());
  std::size_t end = out_.size() - start_;
  if (nesting_.at_key()) CHECK(may_be_key && nesting_.in_order(written(), written().subspan(begin)));
  nesting_.add(begin, end);
}

void CborEncoder::write_uint(std::uint64_t number) {
  std::size_t begin = out_.size() - start_;
  append_head(0, number);
  end_item(begin, true);
}

void CborEncoder::write_negative(std::uint64_t n) {
  std::size_t begin = out_.size() - start_;
  append_head(1, n);
  end_item(begin, true);
}

void CborEncoder::write_int(std::int64_t number) {
  if (number >= 0) {
    write_uint(static_cast<std::uint64_t>(number));
  } else {
    write_negative(~static_cast<std::uint64_t>(number));  // -1 - n is the complement of n
  }
}

void CborEncoder::write_string(unsigned major, ByteView content) {
  std::size_t begin = out_.size() - start_;
  append_head(major, content.size());
  out_ += as_text(content);
  end_item(begin, true);
}

void CborEncoder::write_bytes(ByteView bytes) { write_string(2, bytes); }

void CborEncoder::write_text(std::string_view text) {
  CHECK(is_utf8(text));
  write_string(3, as_bytes(text));
}

void CborEncoder::write_simple(unsigned char byte) {
  std::size_t begin = out_.size() - start_;
  out_ += static_cast<char>(byte);
  end_item(begin, false);
}

void CborEncoder::write_bool(bool flag) { write_simple(flag ? simple_true : simple_false); }
void CborEncoder::write_null() { write_simple(simple_null); }

void CborEncoder::write_container(bool is_map, std::uint64_t count) {
  CHECK(!nesting_.complete() && !nesting_.at_key());
  CHECK(count <= std::numeric_limits<std::uint64_t>::max() / 2);
  append_head(is_map ? 5 : 4, count);
  nesting_.open(is_map, is_map ? count * 2 : count);
}

void CborEncoder::write_array(std::uint64_t count) { write_container(false, count); }
void CborEncoder::write_map(std::uint64_t pairs) { write_container(true, pairs); }

void CborEncoder::finish() const { CHECK(nesting_.complete()); }

Result<CborDecoder::Head> CborDecoder::read_head() const noexcept {
  if (nesting_.complete()) return malformed("CBOR: read past the item");
  if (at_ == input_.size()) return malformed("CBOR: ends early");
  auto first = std::to_integer<unsigned>(input_[at_]);
  unsigned major = first >> 5;
  unsigned info = first & 31;
  if (major == 7) {
    if (first == simple_null) return Head{CborKind::null, 0, at_ + 1};
    if (first == simple_false || first == simple_true)
      return Head{CborKind::boolean, first == simple_true, at_ + 1};
    return malformed("CBOR: float or unknown simple value");
  }
  if (major == 6) return malformed("CBOR: tag");
  auto kind = static_cast<CborKind>(major);
  if (info < 24) return Head{kind, info, at_ + 1};
  if (info > 27) return malformed("CBOR: indefinite length or reserved head");
  unsigned width = 1u << (info - 24);
  if (input_.size() - at_ - 1 < width) return malformed("CBOR: ends early");
  std::uint64_t argument = 0;
  for (unsigned i = 1; i <= width; ++i)
    argument = argument << 8 | std::to_integer<std::uint64_t>(input_[at_ + i]);
  if (argument < smallest_of_width(width)) return malformed("CBOR: head is not the shortest");
  return Head{kind, argument, at_ + 1 + width};
}

Result<CborDecoder::Head> CborDecoder::read_head_of(CborKind kind) const noexcept {
  TRY(Head head, read_head());
  if (head.kind != kind) return malformed("CBOR: another kind of item was expected");
  return head;
}

Result<> CborDecoder::end_item(std::size_t end) noexcept {
  if (nesting_.at_key() && !nesting_.in_order(input_, input_.subspan(at_, end - at_)))
    return malformed("CBOR: duplicate key or keys out of order");
  nesting_.add(at_, end);
  at_ = end;
  return {};
}

Result<CborKind> CborDecoder::peek() const noexcept {
  TRY(Head head, read_head());
  return head.kind;
}

Result<std::uint64_t> CborDecoder::read_uint() noexcept {
  TRY(Head head, read_head_of(CborKind::unsigned_integer));
  TRY_VOID(end_item(head.content));
  return head.argument;
}

Result<std::uint64_t> CborDecoder::read_negative() noexcept {
  TRY(Head head, read_head_of(CborKind::negative_integer));
  TRY_VOID(end_item(head.content));
  return head.argument;
}

Result<std::int64_t> CborDecoder::read_int() noexcept {
  TRY(Head head, read_head());
  if (head.kind > CborKind::negative_integer) return malformed("CBOR: an integer was expected");
  if (head.argument > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return malformed("CBOR: integer out of range");
  TRY_VOID(end_item(head.content));
  auto n = static_cast<std::int64_t>(head.argument);
  return head.kind == CborKind::unsigned_integer ? n : -1 - n;
}

Result<ByteView> CborDecoder::read_string(CborKind kind) noexcept {
  TRY(Head head, read_head_of(kind));
  if (head.argument > input_.size() - head.content) return malformed("CBOR: string longer than the input");
  ByteView content = input_.subspan(head.content, head.argument);
  if (kind == CborKind::text && !is_utf8(as_text(content))) return malformed("CBOR: text is not UTF-8");
  TRY_VOID(end_item(head.content + content.size()));
  return content;
}

Result<ByteView> CborDecoder::read_bytes() noexcept { return read_string(CborKind::bytes); }

Result<std::string_view> CborDecoder::read_text() noexcept {
  TRY(ByteView content, read_string(CborKind::text));
  return as_text(content);
}

Result<> CborDecoder::expect_text(std::string_view text) noexcept {
  CborDecoder ahead = *this;
  TRY(std::string_view found, ahead.read_text());
  if (found != text) return malformed("CBOR: another text was expected");
  *this = ahead;
  return {};
}

Result<bool> CborDecoder::read_bool() noexcept {
  TRY(Head head, read_head_of(CborKind::boolean));
  if (nesting_.at_key()) return malformed("CBOR: key is not an integer or a string");
  TRY_VOID(end_item(head.content));
  return head.argument != 0;
}

Result<> CborDecoder::read_null() noexcept {
  TRY(Head head, read_head_of(CborKind::null));
  if (nesting_.at_key()) return malformed("CBOR: key is not an integer or a string");
  return end_item(head.content);
}

Result<std::size_t> CborDecoder::read_container(CborKind kind) noexcept {
  TRY(Head head, read_head_of(kind));
  if (nesting_.at_key()) return malformed("CBOR: key is not an integer or a string");
  if (!nesting_.can_open()) return malformed("CBOR: nested too deeply");
  // An item takes at least a byte.
  std::size_t most = (input_.size() - head.content) / (kind == CborKind::map ? 2 : 1);
  if (head.argument > most) return malformed("CBOR: count larger than the input");
  nesting_.open(kind == CborKind::map, kind == CborKind::map ? head.argument * 2 : head.argument);
  at_ = head.content;
  return head.argument;
}

Result<std::size_t> CborDecoder::read_array() noexcept { return read_container(CborKind::array); }
Result<std::size_t> CborDecoder::read_map() noexcept { return read_container(CborKind::map); }

Result<> CborDecoder::skip() noexcept {
  CborDecoder ahead = *this;
  // A container that is opened and not empty leaves us deeper; the item is over when we are back.
  std::size_t depth = nesting_.depth();
  do {
    TRY(CborKind kind, ahead.peek());
    switch (kind) {
      case CborKind::unsigned_integer:
        TRY_VOID(ahead.read_uint());
        break;
      case CborKind::negative_integer:
        TRY_VOID(ahead.read_negative());
        break;
      case CborKind::bytes:
      case CborKind::text:
        TRY_VOID(ahead.read_string(kind));
        break;
      case CborKind::array:
      case CborKind::map:
        TRY_VOID(ahead.read_container(kind));
        break;
      case CborKind::boolean:
        TRY_VOID(ahead.read_bool());
        break;
      case CborKind::null:
        TRY_VOID(ahead.read_null());
        break;
    }
  } while (ahead.nesting_.depth() > depth);
  *this = ahead;
  return {};
}

Result<> CborDecoder::finish() const noexcept {
  if (!nesting_.complete()) return malformed("CBOR: not read to its end");
  if (at_ != input_.size()) return malformed("CBOR: bytes after the item");
  return {};
}

}  // namespace cairn::codec
