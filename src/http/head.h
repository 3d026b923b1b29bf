// RequestHead: what a request asks for, as views into the buffer that its carrier keeps.
#pragma once

#include <cstdint>
#include <string_view>

#include "http/fields.h"
#include "http/method.h"

namespace cairn::http {

struct HeadLimits {
  std::uint32_t head_bytes = 32 * 1024;  // at most 65535: offsets are 16 bits
  std::uint32_t target_bytes = 8 * 1024;
};

// How the body is delimited. `chunked` means that the length is not yet known, for every carrier. until_close
// exists in responses only.
enum class BodyKind : std::uint8_t { none, length, chunked, until_close };

struct RequestHead {
  Method method = Method::get;
  BodyKind body = BodyKind::none;
  std::uint64_t content_length = 0;  // for BodyKind::length
  Fields fields;

  // As sent: origin-form, absolute-form or `*`.
  std::string_view target() const noexcept { return view(target_at, target_size); }
  // Still percent-encoded (http/path.h decodes); starts with '/', or is "*" for `OPTIONS *`.
  std::string_view path() const noexcept { return view(path_at, path_size); }
  // Without the '?'.
  std::string_view query() const noexcept { return view(query_at, query_size); }
  // Path and query as an origin server is asked for them, whatever form the target has.
  std::string_view origin_form() const noexcept {
    return view(path_at, query_size == 0 ? path_size : std::size_t{query_at} + query_size - path_at);
  }
  // The host that the request is meant for: `Host` or, where HTTP/1.0 sends none, the authority of an
  // absolute-form target.
  std::string_view host() const noexcept {
    return fields.has(FieldName::host) ? fields.get(FieldName::host) : view(authority_at, authority_size);
  }
  // The buffer has moved. All views made before are invalid.
  void rebase(const char* new_base) noexcept {
    base = new_base;
    fields.rebase(new_base);
  }

  // Filled by the parser; offsets from the head's first byte.
  const char* base = nullptr;
  std::uint16_t target_at = 0, target_size = 0;
  std::uint16_t path_at = 0, path_size = 0;
  std::uint16_t query_at = 0, query_size = 0;
  std::uint16_t authority_at = 0, authority_size = 0;  // of an absolute-form target

 private:
  std::string_view view(std::size_t at, std::size_t size) const noexcept {
    return base == nullptr ? std::string_view{} : std::string_view{base + at, size};
  }
};

}  // namespace cairn::http
