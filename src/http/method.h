// Method and sets of methods.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cairn::http {

// connect and trace are named so that they can be refused; a parsed RequestHead never carries them.
enum class Method : std::uint8_t { get, head, post, put, del, patch, options, connect, trace };
constexpr std::size_t method_count = 9;

constexpr std::string_view method_names[method_count] = {"GET",   "HEAD",    "POST",    "PUT",  "DELETE",
                                                         "PATCH", "OPTIONS", "CONNECT", "TRACE"};
constexpr std::string_view name_of(Method method) noexcept {
  return method_names[static_cast<std::size_t>(method)];
}

struct MethodSet {
  std::uint16_t bits = 0;

  constexpr MethodSet() = default;
  constexpr MethodSet(Method method)  // NOLINT(google-explicit-constructor): a method is the set of itself
      : bits(static_cast<std::uint16_t>(1u << static_cast<unsigned>(method))) {}
  constexpr bool has(Method method) const noexcept { return (bits & MethodSet(method).bits) != 0; }
  constexpr bool empty() const noexcept { return bits == 0; }
  friend constexpr bool operator==(MethodSet, MethodSet) = default;
  friend constexpr MethodSet operator|(MethodSet a, MethodSet b) noexcept {
    MethodSet both;
    both.bits = static_cast<std::uint16_t>(a.bits | b.bits);
    return both;
  }
};
constexpr MethodSet operator|(Method a, Method b) noexcept { return MethodSet(a) | MethodSet(b); }

// The value of an Allow field ("GET, HEAD"), written to `out` (allow_size_max is enough for every set).
inline constexpr std::size_t allow_size_max = 72;
std::string_view format_allow(MethodSet methods, std::span<char> out) noexcept;

}  // namespace cairn::http
