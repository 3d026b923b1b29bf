// CborDecoder against arbitrary bytes. What it accepts must encode to the very same bytes, and reading,
// skipping and peeking must agree about what is acceptable.
#include "codec/cbor.h"

#include "base/check.h"

namespace {

using namespace cairn;
using namespace cairn::codec;

Result<> copy_item(CborDecoder& from, CborEncoder& to) {
  TRY(CborKind kind, from.peek());
  switch (kind) {
    case CborKind::unsigned_integer: {
      auto as_int = CborDecoder(from).read_int();
      TRY(std::uint64_t number, from.read_uint());
      CHECK(!as_int || (*as_int >= 0 && static_cast<std::uint64_t>(*as_int) == number));
      to.write_uint(number);
      break;
    }
    case CborKind::negative_integer: {
      auto as_int = CborDecoder(from).read_int();
      TRY(std::uint64_t n, from.read_negative());
      CHECK(!as_int || *as_int == -1 - static_cast<std::int64_t>(n));
      to.write_negative(n);
      break;
    }
    case CborKind::bytes: {
      TRY(ByteView bytes, from.read_bytes());
      to.write_bytes(bytes);
      break;
    }
    case CborKind::text: {
      TRY(std::string_view text, from.read_text());
      to.write_text(text);
      break;
    }
    case CborKind::boolean: {
      TRY(bool flag, from.read_bool());
      to.write_bool(flag);
      break;
    }
    case CborKind::null: {
      TRY_VOID(from.read_null());
      to.write_null();
      break;
    }
    case CborKind::array: {
      TRY(std::size_t count, from.read_array());
      to.write_array(count);
      for (std::size_t i = 0; i < count; ++i) TRY_VOID(copy_item(from, to));
      break;
    }
    case CborKind::map: {
      TRY(std::size_t pairs, from.read_map());
      to.write_map(pairs);
      for (std::size_t i = 0; i < pairs * 2; ++i) TRY_VOID(copy_item(from, to));
      break;
    }
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteView input(reinterpret_cast<const std::byte*>(data), size);

  std::string copy;
  CborEncoder encoder(copy);
  CborDecoder reader(input);
  auto read = copy_item(reader, encoder);
  CHECK(read.has_value() || read.error().code == ErrorCode::malformed);
  bool accepted = read && reader.finish();

  CborDecoder skipper(input);
  auto skipped = skipper.skip();
  CHECK(skipped.has_value() == read.has_value());
  CHECK((skipped && skipper.finish()) == accepted);

  if (accepted) {
    encoder.finish();
    CHECK(std::string_view(copy) == as_text(input));
  }
  return 0;
}
