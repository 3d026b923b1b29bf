#include "publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

namespace cairn::simulator {
namespace {

constexpr const char* directory = "www";
constexpr const char* temporary = "www/p.tmp";
constexpr std::string_view prefix = "version ";

// From memory if it is there, else from the disk; the whole file must be `text`.
Task<Result<>> verify(Call call, io::File& file, Slab& slab, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    Buffer buffer = slab.take(Slab::small - 64);
    const std::size_t count = std::min(text.size() - at, buffer.room().size());
    auto got = file.try_read(at, count, buffer);
    if (!got) {
      buffer.clear();
      CO_TRY(buffer, co_await file.read(call, at, count, std::move(buffer)));
    }
    if (buffer.empty() || as_text(buffer.bytes()) != text.substr(at, buffer.size()))
      co_return fail(ErrorCode::integrity, "read back");
    at += buffer.size();
  }
  co_return Result<>{};
}

}  // namespace

std::string published_text(std::uint64_t version) {
  std::string text = fmt::format("{}{:010}\n", prefix, version);
  Random random(version);
  const std::size_t size = 200 + static_cast<std::size_t>(random.below(6000));
  while (text.size() < size) text += fmt::format("{:016x}", random.next());
  return text;
}

std::optional<std::uint64_t> read_published(std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  std::uint64_t version = 0;
  const char* begin = text.data() + prefix.size();
  const auto [end, problem] = std::from_chars(begin, text.data() + text.size(), version);
  if (problem != std::errc() || text != published_text(version)) return std::nullopt;
  return version;
}

Task<Result<>> publish(Call call, io::Disk& disk, Slab& slab, Publication& publication) {
  const std::uint64_t version = ++publication.started;
  const std::string text = published_text(version);
  (void)co_await disk.unlink(call, temporary);
  CO_TRY(std::unique_ptr<io::File> file, co_await disk.open(call, temporary, io::OpenMode::create_new));
  for (std::size_t at = 0; at < text.size();) {
    Buffer part = slab.take(1024);
    const std::size_t count = std::min<std::size_t>(text.size() - at, 1024);
    std::memcpy(part.room().data(), text.data() + at, count);
    part.fill(count);
    CO_TRY(part, co_await file->write(call, at, std::move(part)));
    at += count;
  }
  CO_TRY_VOID(co_await verify(call, *file, slab, text));
  CO_TRY_VOID(co_await file->sync_data(call));
  CO_TRY_VOID(co_await disk.rename(call, temporary, std::string(directory) + "/" + published_name));
  publication.visible = version;
  CO_TRY_VOID(co_await disk.sync_directory(call, directory));
  publication.durable = version;
  co_return Result<>{};
}

}  // namespace cairn::simulator
