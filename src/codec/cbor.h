// Deterministic CBOR (RFC 8949 section 4.2.1): each value has exactly one encoding, so that bytes can be
// hashed, signed and compared.
//
// The subset: integers of -2^64 .. 2^64-1, byte strings, text (valid UTF-8), arrays, maps, false, true,
// null. Map keys are integers, byte strings or text. Shortest heads, definite lengths, keys strictly
// ascending in the bytewise order of their encodings, at most 32 containers deep; no floats, no tags.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::codec {

constexpr std::size_t cbor_depth_max = 32;

enum class CborKind : std::uint8_t {
  unsigned_integer,
  negative_integer,
  bytes,
  text,
  array,
  map,
  boolean,
  null,
};

// The order of text (or of byte string) keys in a map: the shorter first, then bytewise.
struct CborKeyOrder {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const noexcept {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }
};

// The open containers and the items that each still expects: the rules that encoder and decoder share.
class CborNesting {
 public:
  bool at_key() const noexcept;
  bool can_open() const noexcept { return depth_ < cbor_depth_max; }
  std::size_t depth() const noexcept { return depth_; }
  // A root item was begun and everything is closed again.
  bool complete() const noexcept { return begun_ && depth_ == 0; }
  // Whether `key` may follow the previous key of the innermost map.
  bool in_order(ByteView all, ByteView key) const noexcept;

  // The key, value or root item at hand is all[begin, end).
  void add(std::size_t begin, std::size_t end) noexcept;
  // The item at hand is a container of that many items (a pair is two).
  void open(bool is_map, std::uint64_t items) noexcept;

 private:
  struct Frame {
    std::uint64_t left = 0;  // items still to come
    std::size_t key_begin = 0;
    std::size_t key_end = 0;  // the previous key; empty before the first
    bool is_map = false;
  };

  void count_item() noexcept;

  std::array<Frame, cbor_depth_max> frames_{};
  std::size_t depth_ = 0;
  bool begun_ = false;
};

// Appends one item to `out`. Keys out of order, a count that is not kept, invalid UTF-8 and nesting beyond
// the limit are bugs of the caller: CHECK. It does not sort, because it writes each item at once; keys that
// are data come from a container ordered by CborKeyOrder. Only the encoder may change `out` until finish().
class CborEncoder {
 public:
  explicit CborEncoder(std::string& out) : out_(out), start_(out.size()) {}
  CborEncoder(const CborEncoder&) = delete;
  CborEncoder& operator=(const CborEncoder&) = delete;

  void write_uint(std::uint64_t number);
  void write_int(std::int64_t number);
  void write_negative(std::uint64_t n);  // the number -1 - n
  void write_bytes(ByteView bytes);
  void write_text(std::string_view text);
  void write_bool(bool flag);
  void write_null();
  void write_array(std::uint64_t count);  // then its items
  void write_map(std::uint64_t pairs);    // then each key and its value

  // CHECKs that one whole item was written.
  void finish() const;

 private:
  void write_string(unsigned major, ByteView content);
  void write_simple(unsigned char byte);
  void write_container(bool is_map, std::uint64_t count);
  void append_head(unsigned major, std::uint64_t argument);
  void end_item(std::size_t begin, bool may_be_key);
  ByteView written() const noexcept { return as_bytes(std::string_view(out_)).subspan(start_); }

  std::string& out_;
  std::size_t start_;
  CborNesting nesting_;
};

// A cursor over exactly one item. It allocates nothing: strings are views of the input. Input that
// CborEncoder would not have written is malformed. A refused read does not move the cursor. Counts are never
// larger than the bytes that are left, so they may be trusted for a reserve().
class CborDecoder {
 public:
  explicit CborDecoder(ByteView input) noexcept : input_(input) {}

  Result<CborKind> peek() const noexcept;
  Result<std::uint64_t> read_uint() noexcept;
  Result<std::int64_t> read_int() noexcept;
  Result<std::uint64_t> read_negative() noexcept;  // n of the number -1 - n
  Result<ByteView> read_bytes() noexcept;
  Result<std::string_view> read_text() noexcept;
  Result<bool> read_bool() noexcept;
  Result<> read_null() noexcept;
  Result<std::size_t> read_array() noexcept;  // the count of its items, which are read next
  Result<std::size_t> read_map() noexcept;    // the count of its pairs, which are read next
  // For fixed layouts: the next item must be exactly this text.
  Result<> expect_text(std::string_view text) noexcept;
  // Passes over the next item and all inside it, as strictly as if it were read.
  Result<> skip() noexcept;

  // The item was read whole and nothing follows it.
  Result<> finish() const noexcept;

 private:
  struct Head {
    CborKind kind;
    std::uint64_t argument;
    std::size_t content;  // where the head ends
  };

  Result<Head> read_head() const noexcept;
  Result<Head> read_head_of(CborKind kind) const noexcept;
  Result<> end_item(std::size_t end) noexcept;
  Result<ByteView> read_string(CborKind kind) noexcept;
  Result<std::size_t> read_container(CborKind kind) noexcept;

  ByteView input_;
  std::size_t at_ = 0;
  CborNesting nesting_;
};

}  // namespace cairn::codec
