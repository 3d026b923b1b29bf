#include "client/reference.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::client {
namespace {

constexpr std::size_t candidates_shown = 10;

}  // namespace

std::optional<Reference> parse_reference(std::string_view text) {
  if (!text.starts_with("b3:")) return std::nullopt;
  Reference reference;
  const std::size_t slash = std::min(text.find('/'), text.size());
  reference.text = text.substr(0, slash);
  if (slash < text.size()) {
    reference.path = text.substr(slash + 1);
    while (reference.path.ends_with('/')) reference.path.pop_back();
  }
  for (char& c : reference.text)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c + ('a' - 'A'));
  const std::string_view digits = std::string_view(reference.text).substr(3);
  if (digits.size() < prefix_digits_min || digits.size() > 64) return std::nullopt;
  if (!std::ranges::all_of(digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }))
    return std::nullopt;
  reference.address = parse_address(reference.text);
  return reference;
}

Task<Outcome<Address>> resolve(Call call, StorageClient* storage, Reference reference) {
  if (reference.address) co_return *reference.address;
  ListQuery query{.prefix = reference.text, .limit = candidates_shown + 1};
  CO_TRY(Listing found, co_await storage->list(call, std::move(query)));
  std::erase_if(found.objects, [&](const ObjectInfo& one) {
    return !format_address(one.address).starts_with(reference.text);
  });
  if (found.objects.size() == 1) co_return found.objects.front().address;
  Failure failure(ErrorCode::not_found, fmt::format("no object begins with {}", reference.text));
  failure.asked = fmt::format("objects of {}", format_endpoint(storage->transport().options().endpoint));
  if (found.objects.empty()) co_return fail(std::move(failure));
  failure.error.code = ErrorCode::conflict;
  failure.message = fmt::format("{} is the beginning of several addresses:", reference.text);
  for (std::size_t i = 0; i < std::min(found.objects.size(), candidates_shown); ++i)
    failure.message += "\n         " + format_address(found.objects[i].address);
  if (found.objects.size() > candidates_shown) failure.message += "\n         …";
  co_return fail(std::move(failure));
}

Task<Outcome<NamedReference>> resolve_name(Call call, IndexClient* index, std::string text) {
  if (text.starts_with("name:")) text.erase(0, 5);
  while (text.ends_with('/')) text.pop_back();
  bool can_be = false;
  // From the whole text on, one segment less each time. The rest may be anything that a path may be.
  for (std::size_t end = text.size();;) {
    const std::string name = text.substr(0, end);
    if (format::is_name(name)) {
      can_be = true;
      auto found = co_await index->resolve(call, name);
      if (found)
        co_return NamedReference{std::move(*found), name, text.substr(std::min(end + 1, text.size()))};
      if (found.error().code() != ErrorCode::not_found) co_return fail(std::move(found.error()));
    }
    end = end == 0 ? text.npos : text.rfind('/', end - 1);
    if (end == text.npos) break;
  }
  if (!can_be) co_return fail(Failure(ErrorCode::invalid, fmt::format("`{}` is not a name", text)));
  Failure failure(ErrorCode::not_found, fmt::format("no name is, or is the beginning of, {}", text));
  failure.asked = fmt::format("names of {}", format_endpoint(index->transport().options().endpoint));
  co_return fail(std::move(failure));
}

}  // namespace cairn::client
