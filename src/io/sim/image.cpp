#include "io/sim/image.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cairn::io::sim {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  return (std::rotl(hash, 23) ^ value) * 0x9e3779b97f4a7c15u;
}

std::uint64_t mix_text(std::uint64_t hash, std::string_view text) noexcept {
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return mix(hash, text.size());
}

}  // namespace

FileData::Page& FileData::own(std::size_t index) {
  if (index >= pages_.size()) pages_.resize(index + 1);
  std::shared_ptr<Page>& page = pages_[index];
  if (page == nullptr)
    page = std::make_shared<Page>();
  else if (page.use_count() > 1)
    page = std::make_shared<Page>(*page);
  page->hashed = false;
  return *page;
}

void FileData::resize(std::uint64_t size) {
  if (size < size_ || size < pages_.size() * page_size) {
    const auto whole = static_cast<std::size_t>(size / page_size);
    const auto rest = static_cast<std::size_t>(size % page_size);
    if (pages_.size() > whole + (rest != 0 ? 1 : 0)) pages_.resize(whole + (rest != 0 ? 1 : 0));
    if (rest != 0 && whole < pages_.size() && pages_[whole] != nullptr) {
      Page& page = own(whole);
      std::memset(page.bytes.data() + rest, 0, page_size - rest);
    }
  }
  size_ = size;
}

void FileData::poke(std::uint64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    const auto within = static_cast<std::size_t>(offset % page_size);
    const std::size_t count = std::min(bytes.size(), page_size - within);
    std::memcpy(own(static_cast<std::size_t>(offset / page_size)).bytes.data() + within, bytes.data(), count);
    bytes = bytes.subspan(count);
    offset += count;
  }
}

void FileData::write(std::uint64_t offset, ByteView bytes) {
  poke(offset, bytes);
  if (!bytes.empty()) grow(offset + bytes.size());
}

void FileData::peek(std::uint64_t offset, MutableByteView into) const noexcept {
  while (!into.empty()) {
    const auto index = static_cast<std::size_t>(offset / page_size);
    const auto within = static_cast<std::size_t>(offset % page_size);
    const std::size_t count = std::min(into.size(), page_size - within);
    if (index < pages_.size() && pages_[index] != nullptr)
      std::memcpy(into.data(), pages_[index]->bytes.data() + within, count);
    else
      std::memset(into.data(), 0, count);
    into = into.subspan(count);
    offset += count;
  }
}

std::size_t FileData::read(std::uint64_t offset, MutableByteView into) const noexcept {
  if (offset >= size_) return 0;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), size_ - offset));
  peek(offset, into.first(count));
  return count;
}

std::uint64_t FileData::hash_of(const Page& page) noexcept {
  if (page.hashed) return page.hash;
  std::uint64_t hash = 0;
  std::uint64_t any = 0;
  for (std::size_t at = 0; at < page_size; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, page.bytes.data() + at, sizeof word);
    any |= word;
    hash = mix(hash, word);
  }
  page.hash = any == 0 ? 0 : hash;  // a page of zeros is the same as none
  page.hashed = true;
  return page.hash;
}

std::uint64_t FileData::hash() const noexcept {
  std::uint64_t hash = mix(0, size_);
  for (std::size_t i = 0; i < pages_.size(); ++i)
    if (pages_[i] != nullptr)
      if (const std::uint64_t page = hash_of(*pages_[i]); page != 0) hash = mix(mix(hash, i), page);
  return hash;
}

std::string Image::normalise(std::string_view path) {
  std::string clean;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (!clean.empty()) clean += '/';
    clean += part;
  }
  return clean;
}

std::string_view Image::parent(std::string_view path) noexcept {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

const Image::Entry* Image::find(std::string_view path) const {
  const auto it = names.find(path);
  return it == names.end() ? nullptr : &it->second;
}

bool Image::has_directory(std::string_view path) const {
  if (path.empty()) return true;
  const Entry* entry = find(path);
  return entry != nullptr && entry->directory;
}

const FileData* Image::data(std::uint64_t inode) const {
  const auto it = files.find(inode);
  return it == files.end() ? nullptr : it->second.get();
}

FileData& Image::own(std::uint64_t inode) {
  std::shared_ptr<FileData>& data = files[inode];
  if (data == nullptr)
    data = std::make_shared<FileData>();
  else if (data.use_count() > 1)
    data = std::make_shared<FileData>(*data);
  return *data;
}

std::vector<std::string> Image::list(std::string_view directory) const {
  std::vector<std::string> found;
  const std::string prefix = directory.empty() ? std::string() : std::string(directory) + '/';
  for (auto it = names.lower_bound(prefix); it != names.end() && it->first.starts_with(prefix); ++it) {
    const std::string_view rest = std::string_view(it->first).substr(prefix.size());
    if (rest.find('/') == std::string_view::npos) found.emplace_back(rest);
  }
  return found;
}

void Image::drop_orphan_names() {
  // Parents sort before their children, so one pass sees each parent's fate first.
  for (auto it = names.begin(); it != names.end();)
    it = has_directory(parent(it->first)) ? std::next(it) : names.erase(it);
}

std::uint64_t Image::hash() const {
  std::uint64_t hash = 1;
  for (const auto& [path, entry] : names) {
    hash = mix_text(hash, path);
    const FileData* file = entry.directory ? nullptr : data(entry.inode);
    hash = mix(hash, entry.directory ? 1 : file == nullptr ? 2 : file->hash());
  }
  return hash ^ (hash >> 32);
}

std::uint64_t Image::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [inode, data] : files) sum += data->size();
  return sum;
}

std::string Image::text(std::string_view path) const {
  const Entry* entry = find(path);
  const FileData* file = entry == nullptr || entry->directory ? nullptr : data(entry->inode);
  if (file == nullptr) return {};
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  return text;
}

void Image::put(std::string_view path, std::string_view text, std::uint64_t inode) {
  names[std::string(path)] = {false, inode};
  FileData& file = own(inode);
  file.resize(0);
  file.write(0, as_bytes(text));
}

}  // namespace cairn::io::sim
