#include "cairn/naming.h"

#include <fmt/format.h>

#include "cairn/registry_words.h"
#include "format/name_change.h"
#include "format/registry_field.h"

namespace cairn::cli {

using client::Failure;
using client::Outcome;

Outcome<std::optional<std::uint64_t>> read_if_match(const Invocation& invocation) {
  const auto text = invocation.find("if-match");
  if (!text) return std::nullopt;
  // As it is shown, or as a tag of HTTP.
  std::string_view digits = *text;
  if (digits.size() > 2 && digits.starts_with('"') && digits.ends_with('"'))
    digits = digits.substr(1, digits.size() - 2);
  const auto number = parse_version_number(digits);
  if (!number || *number == 0)
    return fail(Failure(ErrorCode::invalid, "--if-match is a sequence, as cairn name get shows it"));
  return number;
}

Outcome<client::SetName> read_wish(const Invocation& invocation, std::string name) {
  client::SetName wish{.name = std::move(name), .manifest = {}};
  if (!format::is_name(wish.name))
    return fail(Failure(ErrorCode::invalid,
                        fmt::format("`{}` is not a name: 1 to 255 of a-z 0-9 . _ - in segments between "
                                    "single slashes",
                                    printable(wish.name))));
  if (const auto note = invocation.find("note"); note && !note->empty()) {
    if (note->size() > format::note_size_max || !format::is_registry_text(*note))
      return fail(Failure(ErrorCode::invalid, "--note is at most 256 bytes without control characters"));
    wish.note = *note;
  }
  TRY(wish.if_match, read_if_match(invocation));
  wish.only_new = invocation.has("new");
  if (wish.only_new && wish.if_match)
    return fail(Failure(ErrorCode::invalid, "--new and --if-match exclude each other"));
  return wish;
}

Task<Outcome<client::NameSet>> set_name(Call call, Session* session, client::SetName wish,
                                        std::string manifest) {
  CO_TRY(client::IndexClient * index, co_await session->index->connect(call));
  // The manifest comes first: a name that leads to it must not be seen before it.
  if (!manifest.empty())
    CO_TRY_VOID(co_await index->put_manifest(call, wish.manifest, as_bytes(std::string_view(manifest))));
  auto set = co_await index->set_name(call, wish);
  if (!set && set.error().code() == ErrorCode::precondition_failed)
    set.error().hint = wish.only_new
                           ? fmt::format("it leads somewhere already: cairn name get {}", wish.name)
                           : fmt::format("it was changed meanwhile: cairn name history {}", wish.name);
  co_return set;
}

}  // namespace cairn::cli
