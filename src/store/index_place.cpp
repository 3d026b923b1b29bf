#include "store/index_place.h"

#include <charconv>
#include <optional>
#include <vector>

namespace cairn::store {
namespace {

constexpr std::string_view first_name = "index";
constexpr std::string_view mark_name = "index.damaged";

std::string mark_path(const std::string& store) { return store + '/' + std::string(mark_name); }

std::optional<std::uint64_t> number_of(std::string_view name) {
  if (name == first_name) return 0;
  if (!name.starts_with(first_name) || name.size() < first_name.size() + 2) return std::nullopt;
  const std::string_view digits = name.substr(first_name.size() + 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (name[first_name.size()] != '.' || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  if (digits.front() == '0') return std::nullopt;
  return number;
}

}  // namespace

std::string index_path(const std::string& store, std::uint64_t number) {
  std::string path = store + '/' + std::string(first_name);
  if (number != 0) path += '.' + std::to_string(number);
  return path;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<std::uint64_t>> settle_index_place(Call call, io::Machine& machine, KvMaker& maker,
                                               std::string store, observe::Logger log) {
  CO_TRY(const std::vector<std::string> names, co_await machine.disk.list(call, store));
  std::uint64_t used = 0;
  bool marked = false;
  for (const std::string& name : names) {
    if (name == mark_name) marked = true;
    if (const auto number = number_of(name)) used = std::max(used, *number);
  }
  for (const std::string& name : names) {
    const auto number = number_of(name);
    if (!number || (*number == used && !marked)) continue;
    const auto gone = co_await maker.destroy(call, machine, index_path(store, *number));
    // An index that is not in use is only in the way.
    if (!gone && *number == used) co_return fail(gone.error());
    if (!gone) log.warn("an index that is not in use cannot be removed", {{"why", gone.error().context}});
  }
  if (marked) {
    log.warn("the index was found damaged before: it is made anew from the log");
    CO_TRY_VOID(co_await unmark_index_damaged(call, machine, store));
  }
  co_return used;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> mark_index_damaged(Call call, io::Machine& machine, std::string store) {
  const auto made = co_await machine.disk.open(call, mark_path(store), io::OpenMode::create_new);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  co_return co_await machine.disk.sync_directory(call, store);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> unmark_index_damaged(Call call, io::Machine& machine, std::string store) {
  const auto gone = co_await machine.disk.unlink(call, mark_path(store));
  if (!gone && gone.error().code != ErrorCode::not_found) co_return fail(gone.error());
  co_return co_await machine.disk.sync_directory(call, store);
}

}  // namespace cairn::store
