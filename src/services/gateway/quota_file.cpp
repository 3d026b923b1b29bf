#include "services/gateway/quota_file.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <tuple>

#include <fmt/format.h>

#include "base/address.h"
#include "crypto/blake3.h"

namespace cairn::gateway {
namespace {

constexpr std::string_view magic = "cairn-quota 1 ";
constexpr std::uint64_t size_max = std::uint64_t{64} << 20;

template <class T>
bool take_number(std::string_view& from, char end, T& into) noexcept {
  const auto [at, problem] = std::from_chars(from.data(), from.data() + from.size(), into);
  const auto used = static_cast<std::size_t>(at - from.data());
  if (problem != std::errc() || used >= from.size() || from[used] != end) return false;
  from.remove_prefix(used + 1);
  return true;
}

std::string_view take_line(std::string_view& from) noexcept {
  const std::size_t end = std::min(from.find('\n'), from.size());
  const std::string_view line = from.substr(0, end);
  from.remove_prefix(std::min(end + 1, from.size()));
  return line;
}

// `BYTES a NAME` of an address, `BYTES t NAME` of a token's tenant.
std::optional<QuotaRecord::Use> decode_use(std::string_view line) {
  QuotaRecord::Use use;
  if (!take_number(line, ' ', use.bytes) || line.size() < 3 || line[1] != ' ') return std::nullopt;
  if (line[0] != 'a' && line[0] != 't') return std::nullopt;
  use.is_address = line[0] == 'a';
  use.tenant = line.substr(2);
  return use;
}

}  // namespace

std::string encode_quota(const QuotaRecord& record) {
  std::string text = fmt::format("{}{}\n", magic, record.day);
  for (const QuotaRecord::Use& use : record.uses)
    text += fmt::format("{} {} {}\n", use.bytes, use.is_address ? 'a' : 't', use.tenant);
  text += format_address(crypto::hash_object(as_bytes(text)));
  text += '\n';
  return text;
}

std::optional<QuotaRecord> decode_quota(std::string_view text) {
  if (!text.ends_with('\n')) return std::nullopt;
  const std::size_t last = text.rfind('\n', text.size() - 2);
  if (last == text.npos) return std::nullopt;
  const std::string_view sum = text.substr(last + 1, text.size() - last - 2);
  std::string_view body = text.substr(0, last + 1);
  if (sum != format_address(crypto::hash_object(as_bytes(body)))) return std::nullopt;
  if (!body.starts_with(magic)) return std::nullopt;
  body.remove_prefix(magic.size());
  QuotaRecord record;
  if (!take_number(body, '\n', record.day)) return std::nullopt;
  while (!body.empty()) {
    auto use = decode_use(take_line(body));
    if (!use) return std::nullopt;
    record.uses.push_back(std::move(*use));
  }
  return record;
}

// A name is a word of a token or a network as text: it has no end of a line in it.
QuotaRecord record_quotas(Tenants& tenants, std::int64_t day) {
  QuotaRecord record{.day = day};
  tenants.for_each([&](const Tenant& tenant) {
    const std::uint64_t used = tenant.quota.used(day);
    if (used > 0) record.uses.push_back({tenant.name, tenant.is_address, used});
  });
  std::ranges::sort(record.uses, {},
                    [](const QuotaRecord::Use& use) { return std::tie(use.tenant, use.is_address); });
  return record;
}

void restore_quotas(Tenants& tenants, const QuotaRecord& record) {
  for (const QuotaRecord::Use& use : record.uses)
    tenants.find(use.tenant, use.is_address)->quota.restore(record.day, use.bytes);
}

Task<Result<QuotaRecord>> read_quota_file(Call call, io::Disk* disk, std::string path) {
  CO_TRY(const auto file, co_await disk->open(call, path, io::OpenMode::read));
  CO_TRY(const std::uint64_t size, file->size());
  if (size > size_max) co_return fail(ErrorCode::integrity, "the quota file is larger than it can be");
  auto memory = std::make_shared<HeapBytes>(static_cast<std::size_t>(size));
  CO_TRY(const std::size_t got, co_await file->read_into(call, 0, {memory->room(), memory}));
  memory->fill(got);
  auto record = decode_quota(as_text(std::as_const(*memory).bytes()));
  if (!record) co_return fail(ErrorCode::integrity, "the quota file is damaged");
  co_return std::move(*record);
}

Task<Result<>> replace_quota_file(Call call, io::Disk* disk, std::string path, std::string text) {
  const std::string aside = path + ".new", directory = path.substr(0, path.rfind('/'));
  // A gateway alone is the first to write to its data directory.
  for (const std::string& each : {directory.substr(0, directory.rfind('/')), directory})
    if (auto made = co_await disk->make_directory(call, each);
        !made && made.error().code != ErrorCode::conflict)
      co_return fail(made.error());
  // A crash may have left a file there.
  if (auto gone = co_await disk->unlink(call, aside); !gone && gone.error().code != ErrorCode::not_found)
    co_return fail(gone.error());
  CO_TRY(const auto file, co_await disk->open(call, aside, io::OpenMode::create_new));
  std::vector<HeapBytes> blocks;
  blocks.emplace_back(text.size());
  blocks.back().append(as_bytes(text));
  CO_TRY_VOID(co_await file->write_blocks(call, 0, std::move(blocks), io::Sync::data));
  CO_TRY_VOID(co_await disk->rename(call, aside, path));
  co_return co_await disk->sync_directory(call, directory);
}

}  // namespace cairn::gateway
