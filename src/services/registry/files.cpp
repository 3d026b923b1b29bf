#include "services/registry/files.h"

#include <memory>

namespace cairn::registry {

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
  const std::string aside = path + ".new";
  // What an earlier crash left there.
  if (auto gone = co_await machine.disk.unlink(call, aside);
      !gone && gone.error().code != ErrorCode::not_found)
    co_return fail(gone.error());
  CO_TRY(const auto file, co_await machine.disk.open(call, aside, io::OpenMode::create_new));
  HeapBytes block(bytes.size());
  block.append(as_bytes(bytes));
  std::vector<HeapBytes> blocks;
  blocks.push_back(std::move(block));
  CO_TRY_VOID(co_await file->write_blocks(call, 0, std::move(blocks), io::Sync::data));
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
    // Also of one that is there: who made it may have been killed before this.
    CO_TRY_VOID(co_await machine.disk.sync_directory(call, parent));
  }
  co_return Result<>{};
}

}  // namespace cairn::registry
