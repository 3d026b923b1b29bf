#include "http/field_list.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace cairn::http {

bool is_field_name(std::string_view name) noexcept {
  for (char c : name)
    if (!is_token_character(c)) return false;
  return !name.empty();
}

bool is_field_value(std::string_view value) noexcept {
  const char* const end = value.data() + value.size();
  for (const char* p = value.data();; ++p) {
    p = find_control(p, end);
    if (p == end) return true;
    if (*p != '\t') return false;
  }
}

std::size_t format_decimal_to(std::uint64_t value, char* out) noexcept {
  char digits[decimal_size_max];
  std::size_t size = 0;
  do {
    digits[size++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  for (std::size_t i = 0; i < size; ++i) out[i] = digits[size - 1 - i];
  return size;
}

bool FieldList::grow(std::size_t least) noexcept {
  if (least > size_max) return false;
  const std::size_t capacity = std::min(std::max(least, 2 * capacity_), size_max);
  std::unique_ptr<char[]> larger(new (std::nothrow) char[capacity]);
  if (!larger) return false;
  std::memcpy(larger.get(), at(), size_);
  outside_ = std::move(larger);
  capacity_ = capacity;
  return true;
}

char* FieldList::take(std::size_t size) noexcept {
  failed_ = failed_ || (size > capacity_ - size_ && !grow(size_ + size));
  if (failed_) return nullptr;
  char* const taken = const_cast<char*>(at()) + size_;
  size_ += size;
  return taken;
}

bool FieldList::add(std::string_view name, std::string_view value) noexcept {
  if (!is_field_name(name) || !is_field_value(value)) failed_ = true;
  char* to = take(name.size() + 2 + value.size() + 2);
  if (to == nullptr) return false;
  std::memcpy(to, name.data(), name.size());
  to += name.size();
  std::memcpy(to, ": ", 2);
  std::memcpy(to + 2, value.data(), value.size());
  std::memcpy(to + 2 + value.size(), "\r\n", 2);
  return true;
}

bool FieldList::add_number(std::string_view name, std::uint64_t value) noexcept {
  char digits[decimal_size_max];
  return add(name, {digits, format_decimal_to(value, digits)});
}

bool FieldList::add(FieldLines lines) noexcept {
  char* const to = take(lines.text().size());
  if (to != nullptr) std::memcpy(to, lines.text().data(), lines.text().size());
  return to != nullptr;
}

std::optional<std::string_view> FieldList::find(std::string_view name) const noexcept {
  std::optional<std::string_view> found;
  each([&](std::string_view one, std::string_view value) {
    if (!found && std::ranges::equal(one, name, {}, lower, lower)) found = value;
  });
  return found;
}

void FieldList::clear() noexcept {
  size_ = kept_;
  failed_ = false;
  if (outside_ && size_ <= inside_size) {
    std::memcpy(inside_.data(), outside_.get(), size_);
    outside_.reset();
    capacity_ = inside_size;
  }
}

}  // namespace cairn::http
