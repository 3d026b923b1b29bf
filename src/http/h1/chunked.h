// ChunkedDecoder: strict, incremental decoder of a chunked body. It yields views into its input.
//
// Strict: 1 to 16 hex digits, size below 2^63, extensions at most 256 bytes a chunk (8 KiB a body) of
// visible ASCII and blanks, CRLF exactly. Trailers are checked like header fields (8 KiB, 100 fields) and
// dropped. Anything else is malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace cairn::http {

class ChunkedDecoder {
 public:
  static constexpr std::size_t extension_max = 256, extensions_max = 8 * 1024;
  static constexpr std::size_t trailers_max = 8 * 1024, trailer_fields_max = 100;

  enum class Kind : std::uint8_t { need_more, data, done, failed };
  struct Step {
    Kind kind = Kind::need_more;
    std::size_t consumed = 0;  // of the input; the caller keeps the rest
    std::string_view data;     // kind data: a non-empty slice of the input
    Error error;               // kind failed
  };

  // One step: consumes framing and at most one slice of data. need_more has consumed the whole input.
  // After `done` the next byte belongs to the next message. Not to be called after done or failed.
  Step next(std::string_view input) noexcept;
  void reset() noexcept { *this = {}; }
  // Bytes known to be left in the current chunk; a reader may size its next read by it.
  std::uint64_t chunk_left() const noexcept { return state_ == State::data ? left_ : 0; }

 private:
  enum class State : std::uint8_t {
    size_first,
    size,
    extension,
    size_line_feed,
    data,
    data_return,
    data_line_feed,
    trailer_line,
    trailer_name,
    trailer_value,
    trailer_line_feed,
    last_line_feed
  };
  const char* advance(char c) noexcept;

  std::uint64_t left_ = 0;
  State state_ = State::size_first;
  std::uint8_t digits_ = 0;
  std::uint8_t trailer_fields_ = 0;
  std::uint16_t extension_ = 0;
  std::uint16_t extensions_ = 0;
  std::uint16_t trailers_ = 0;
};

}  // namespace cairn::http
