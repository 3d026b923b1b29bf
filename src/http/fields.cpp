#include "http/fields.h"

#include <cstring>

#include "http/scan.h"

namespace cairn::http {
namespace {

// A known name as the bytes that decide it: letters without their case bit, the rest exactly. Bytes behind
// the name have an empty mask, so that one comparison of 32 bytes settles a name of any length.
struct KnownName {
  alignas(16) char text[32];
  alignas(16) char mask[32];
  std::string_view name;
};

constexpr KnownName known_name(std::string_view name) noexcept {
  KnownName known{};
  known.name = name;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = lower(name[i]);
    known.mask[i] = static_cast<char>(c >= 'a' && c <= 'z' ? 0xdf : 0xff);
    known.text[i] = static_cast<char>(name[i] & known.mask[i]);
  }
  return known;
}

constexpr KnownName known_names[] = {
    known_name(""),
#define FIELD_NAME(name, text) known_name(text),
#include "http/field_names.def"
#undef FIELD_NAME
};

// Length and three letters tell all known names apart; the factor spreads them over 256 slots without a
// collision. When a new name collides, another odd factor is needed: the assertion below says so.
constexpr std::uint32_t slot_factor = 0x24554c27;

constexpr std::size_t slot_of(const char* name, std::size_t size) noexcept {
  const auto letter = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(name[i]) | 0x20);
  };
  const std::uint32_t packed =
      letter(0) | letter(size / 2) << 8 | letter(size - 1) << 16 | static_cast<std::uint32_t>(size) << 24;
  return (packed * slot_factor) >> 24;
}

constexpr std::array<std::uint8_t, 256> make_slots() noexcept {
  std::array<std::uint8_t, 256> slots{};
  for (std::size_t i = 1; i < field_name_count; ++i) {
    std::uint8_t& slot = slots[slot_of(known_names[i].name.data(), known_names[i].name.size())];
    slot = slot == 0 ? static_cast<std::uint8_t>(i) : std::uint8_t{255};
  }
  return slots;
}
constexpr auto slots = make_slots();
static_assert(
    [] {
      for (std::uint8_t slot : slots)
        if (slot == 255) return false;
      return true;
    }(),
    "two field names share a slot: choose another slot_factor");

bool same_name(const KnownName& known, const char* name, std::size_t readable) noexcept {
#if defined(__SSE2__)
  if (readable >= 32) [[likely]] {
    const auto load = [](const char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
    const __m128i low = _mm_cmpeq_epi8(_mm_and_si128(load(name), load(known.mask)), load(known.text));
    const __m128i high =
        _mm_cmpeq_epi8(_mm_and_si128(load(name + 16), load(known.mask + 16)), load(known.text + 16));
    return _mm_movemask_epi8(_mm_and_si128(low, high)) == 0xffff;
  }
#else
  (void)readable;
#endif
  for (std::size_t i = 0; i < known.name.size(); ++i)
    if ((name[i] & known.mask[i]) != known.text[i]) return false;
  return true;
}

// At least `readable` bytes from `name` on may be read.
FieldName find_name(const char* name, std::size_t size, std::size_t readable) noexcept {
  if (size - 1 >= 31) return FieldName::other;
  const std::uint8_t slot = slots[slot_of(name, size)];
  const KnownName& known = known_names[slot];
  if (known.name.size() != size || !same_name(known, name, readable)) return FieldName::other;
  return static_cast<FieldName>(slot);
}

bool all_token(const char* p, const char* end) noexcept {
  for (; p != end; ++p)
    if (!is_token_character(*p)) return false;
  return true;
}

Parsed failed(ErrorCode code, const char* context) noexcept {
  return {Progress::failed, 0, Error(code, context, Side::client)};
}
Parsed malformed(const char* context) noexcept { return failed(ErrorCode::malformed, context); }

}  // namespace

std::string_view name_of(FieldName name) noexcept { return known_names[static_cast<std::size_t>(name)].name; }

FieldName find_field_name(std::string_view text) noexcept {
  return find_name(text.data(), text.size(), text.size());
}

void Fields::clear() noexcept {
  repeated_ = 0;
  count_ = 0;
  first_.fill(none);
}

inline void Fields::add(const Field& field) noexcept {
  std::uint8_t& first = first_[index(field.known)];
  if (first == none)
    first = count_;
  else
    repeated_ |= std::uint64_t{1} << index(field.known);
  at_[count_++] = field;
}

std::optional<std::string_view> Fields::find(std::string_view wanted) const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const std::string_view candidate = name(i);
    if (candidate.size() != wanted.size()) continue;
    std::size_t same = 0;
    while (same < wanted.size() && lower(candidate[same]) == lower(wanted[same])) ++same;
    if (same == wanted.size()) return value(i);
  }
  return std::nullopt;
}

void FieldScanner::start(std::size_t at) noexcept {
  state_ = State::line;
  position_ = static_cast<std::uint32_t>(at);
}

Parsed FieldScanner::scan(std::string_view head, Fields& fields) noexcept {
  const char* const base = head.data();
  const char* const end = base + head.size();
  const char* p = base + position_;
  const auto offset = [base](const char* at) { return static_cast<std::uint32_t>(at - base); };
  const auto pause = [&](State state) {
    state_ = state;
    position_ = offset(p);
    return Parsed{};
  };

  switch (state_) {
    for (;;) {
      [[fallthrough]];
      case State::line:
        if (p == end) return pause(State::line);
        if (*p == '\r') {
          ++p;
          [[fallthrough]];
          case State::last_line_feed:
            if (p == end) return pause(State::last_line_feed);
            if (*p != '\n') return malformed("bare CR in the head");
            return {Progress::complete, offset(p + 1), {}};
        }
        if (fields.count_ == Fields::capacity)
          return failed(ErrorCode::headers_too_large, "more than 100 fields");
        name_at_ = offset(p);
        [[fallthrough]];

      case State::name: {
        const char* const colon = find_colon(p, end);
        const char* const name = base + name_at_;
        if (colon == end) {
          if (!all_token(p, end)) return malformed("field name is not a token");
          p = end;
          return pause(State::name);
        }
        const auto size = static_cast<std::size_t>(colon - name);
        known_ = find_name(name, size, static_cast<std::size_t>(end - name));
        // A known name needs no second look: the comparison was exact.
        if (known_ == FieldName::other && (size == 0 || !all_token(name, colon)))
          return malformed("field name is not a token");
        colon_at_ = offset(colon);
        p = colon + 1;
      }
        [[fallthrough]];

      case State::before_value:
        while (p != end && is_blank(*p)) ++p;
        if (p == end) return pause(State::before_value);
        value_at_ = offset(p);
        [[fallthrough]];

      case State::value:
        for (;;) {
          p = find_control(p, end);
          if (p == end) return pause(State::value);
          if (*p != '\t') break;
          ++p;
        }
        if (*p != '\r') return malformed("control character in a field value");
        ++p;
        [[fallthrough]];

      case State::line_feed: {
        if (p == end) return pause(State::line_feed);
        if (*p != '\n') return malformed("bare CR in a field value");
        const char* value_end = p - 1;
        while (value_end != base + value_at_ && is_blank(value_end[-1])) --value_end;
        fields.add({static_cast<std::uint16_t>(name_at_), static_cast<std::uint16_t>(colon_at_ - name_at_),
                    static_cast<std::uint16_t>(value_at_),
                    static_cast<std::uint16_t>(offset(value_end) - value_at_), known_});
        ++p;
      }
    }
  }
  __builtin_unreachable();
}

bool equals_ignoring_case(std::string_view text, std::string_view lowercase) noexcept {
  if (text.size() != lowercase.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (lower(text[i]) != lowercase[i]) return false;
  return true;
}

bool list_has(std::string_view value, std::string_view token) noexcept {
  for (;;) {
    const std::size_t comma = value.find(',');
    std::string_view element = value.substr(0, comma);
    while (!element.empty() && is_blank(element.front())) element.remove_prefix(1);
    while (!element.empty() && is_blank(element.back())) element.remove_suffix(1);
    if (equals_ignoring_case(element, token)) return true;
    if (comma == std::string_view::npos) return false;
    value.remove_prefix(comma + 1);
  }
}

std::optional<std::uint64_t> parse_content_length(std::string_view text) noexcept {
  constexpr std::uint64_t max = (std::uint64_t{1} << 63) - 1;
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (max - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

}  // namespace cairn::http
