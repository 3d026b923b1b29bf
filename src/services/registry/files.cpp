#include "services/registry/files.h"

#include <memory>
#include <utility>

#include "runtime/wait.h"

namespace cairn::registry {
namespace {

constexpr std::size_t bytes_per_write = 1u << 20;

std::vector<HeapBytes> blocks_of(std::string bytes) {
  std::vector<HeapBytes> blocks;
  blocks.emplace_back(bytes.size());
  blocks.back().append(as_bytes(bytes));
  return blocks;
}

}  // namespace

Task<Result<std::string>> read_file(Call call, io::Machine machine, std::string path, std::uint64_t most) {
  CO_TRY(const auto file, co_await machine.disk.open(call, path, io::OpenMode::read));
  CO_TRY(const std::uint64_t size, file->size());
  if (size > most) co_return fail(ErrorCode::integrity, "a file is larger than it can be");
  auto memory = std::make_shared<HeapBytes>(static_cast<std::size_t>(size));
  CO_TRY(const std::size_t got, co_await file->read_into(call, 0, {memory->room(), memory}));
  memory->fill(got);
  co_return std::string(as_text(std::as_const(*memory).bytes()));
}

Task<Result<>> replace_file(Call call, io::Machine machine, std::string path, std::string bytes) {
  std::optional<std::string> piece = std::move(bytes);
  const std::function<std::optional<std::string>()> next = [&piece] {
    return std::exchange(piece, std::nullopt);
  };
  co_return co_await replace_file(call, machine, std::move(path), next);
}

Task<Result<>> replace_file(
    Call call, io::Machine machine, std::string path,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
    const std::function<std::optional<std::string>()>& next) {
  const std::string aside = path + ".new";
  // A crash may have left a file there.
  if (auto gone = co_await machine.disk.unlink(call, aside);
      !gone && gone.error().code != ErrorCode::not_found)
    co_return fail(gone.error());
  CO_TRY(const auto file, co_await machine.disk.open(call, aside, io::OpenMode::create_new));
  std::uint64_t written = 0;
  std::string bytes;
  while (const auto piece = next()) {
    bytes += *piece;
    if (bytes.size() >= bytes_per_write) {
      const std::uint64_t at = std::exchange(written, written + bytes.size());
      CO_TRY_VOID(co_await file->write_blocks(call, at, blocks_of(std::exchange(bytes, {})), io::Sync::no));
    }
    co_await yield(call);
  }
  CO_TRY_VOID(co_await file->write_blocks(call, written, blocks_of(std::move(bytes)), io::Sync::data));
  CO_TRY_VOID(co_await machine.disk.rename(call, aside, path));
  co_return co_await machine.disk.sync_directory(call, path.substr(0, path.rfind('/')));
}

Task<Result<>> make_directories(Call call, io::Machine machine, std::string root, std::string path) {
  for (std::size_t at = root.size(); at < path.size();) {
    const std::string parent = path.substr(0, at);
    at = path.find('/', at + 1);
    if (at == std::string::npos) at = path.size();
    const auto made = co_await machine.disk.make_directory(call, path.substr(0, at));
    if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
    // Also for a directory that exists: the process that made it may have been killed before it synced.
    CO_TRY_VOID(co_await machine.disk.sync_directory(call, parent));
  }
  co_return Result<>{};
}

}  // namespace cairn::registry
