#include "client/upload_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "crypto/blake3.h"

namespace cairn::client {
namespace {

constexpr std::size_t id_max = 128;

bool is_upload_id(std::string_view text) noexcept {
  return !text.empty() && text.size() <= id_max && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

}  // namespace

std::string ledger_key(std::string_view path, std::uint64_t size, std::int64_t modified_ns,
                       std::string_view server) {
  // No path holds NUL, so different inputs never give the same text.
  const std::string text = fmt::format("{}{}{}{}{}{}{}", path, '\0', size, '\0', modified_ns, '\0', server);
  const Address hash = crypto::hash_object(as_bytes(text));
  return format_hex(ByteView(hash.bytes).first(16));
}

Task<std::optional<std::string>> UploadLedger::find(Call call, std::string key) {
  auto file = co_await machine_.disk.open(call, path_of(key), io::OpenMode::read);
  if (!file) co_return std::nullopt;
  Buffer room = machine_.slab.take(id_max + 1);
  auto text = co_await (*file)->read(call, 0, id_max + 1, std::move(room));
  if (!text) co_return std::nullopt;
  std::string_view id = as_text(text->bytes());
  if (!id.ends_with('\n')) co_return std::nullopt;
  id.remove_suffix(1);
  if (!is_upload_id(id)) co_return std::nullopt;
  co_return std::string(id);
}

Task<Result<>> UploadLedger::keep(Call call, std::string key, std::string upload) {
  if (!is_upload_id(upload)) co_return fail(ErrorCode::invalid, "an upload's id");
  const std::string path = path_of(key);
  auto file = co_await machine_.disk.open(call, path, io::OpenMode::create_new);
  if (!file && file.error().code == ErrorCode::conflict) {
    CO_TRY_VOID(co_await machine_.disk.unlink(call, path));
    file = co_await machine_.disk.open(call, path, io::OpenMode::create_new);
  }
  if (!file) co_return fail(file.error());
  const std::string line = upload + "\n";
  Buffer buffer = machine_.slab.take(line.size());
  std::memcpy(buffer.room().data(), line.data(), line.size());
  buffer.fill(line.size());
  CO_TRY(const Buffer written, co_await (*file)->write(call, 0, std::move(buffer)));
  co_return Result<>{};
}

Task<Result<>> UploadLedger::forget(Call call, std::string key) {
  return machine_.disk.unlink(call, path_of(key));
}

}  // namespace cairn::client
