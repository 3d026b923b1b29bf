#include "store/log_foreign.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::store {
namespace {

constexpr std::string_view ending = ".foreign";
constexpr std::size_t segment_name_size = 14;

}  // namespace

std::optional<std::uint32_t> parse_foreign_name(std::string_view name) noexcept {
  if (name.size() <= segment_name_size || !name.substr(segment_name_size).starts_with(ending))
    return std::nullopt;
  return parse_segment_name(name.substr(0, segment_name_size));
}

Task<Result<ForeignFile>> set_aside(Call call, io::Machine machine, std::string directory,
                                    std::uint32_t segment, std::optional<SegmentHeader> header) {
  CO_TRY(const std::vector<std::string> names, co_await machine.disk.list(call, directory));
  const std::string path = segment_path(directory, segment);
  std::string to = path + std::string(ending);
  const auto is_there = [&] {
    return std::find(names.begin(), names.end(), to.substr(directory.size() + 1)) != names.end();
  };
  for (int i = 2; is_there(); ++i) to = fmt::format("{}{}.{}", path, ending, i);
  CO_TRY_VOID(co_await machine.disk.rename(call, path, to));
  CO_TRY_VOID(co_await machine.disk.sync_directory(call, directory));
  ForeignFile file{std::move(to), segment, std::nullopt};
  if (header) file.header_segment = header->id;
  co_return file;
}

}  // namespace cairn::store
