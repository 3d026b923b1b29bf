// Reads the JSON of an answer with the parser of its kind, and says what is wrong with an answer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "client/failure.h"
#include "codec/json_reader.h"

namespace cairn::client {

// The failure for an answer that could not be read. `integrity` stays what it is, because then the answer was
// read and contradicts itself.
Failure not_understood(std::string asked, const Error& error, std::string_view detail);
// The failure for an answer about something other than was asked.
std::unexpected<Failure> about_another(std::string asked, std::string what);

template <class T>
Outcome<T> read_answer(std::string asked, std::string_view text, Result<T> (*parse)(const codec::JsonValue&),
                       std::size_t cap) {
  codec::JsonReader reader({.bytes = cap});
  const auto root = reader.parse(text);
  if (!root) return fail(not_understood(std::move(asked), root.error(), reader.detail()));
  auto value = parse(*root);
  if (!value) return fail(not_understood(std::move(asked), value.error(), reader.detail()));
  return std::move(*value);
}

}  // namespace cairn::client
