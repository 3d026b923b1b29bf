// Image: the contents of a simulated disk at one moment. Copies share their pages until one is written, so
// that thousands of crash states of the same disk cost little more than their differences.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace cairn::io::sim {

inline constexpr std::size_t sector_size = 512;  // a device writes it whole or not at all
inline constexpr std::size_t page_size = 4096;   // copies share whole pages

class FileData {
 public:
  std::uint64_t size() const noexcept { return size_; }
  // Bytes beyond the new size are zeroed, so that growing again finds zeros.
  void resize(std::uint64_t size);
  void grow(std::uint64_t size) noexcept {
    if (size > size_) size_ = size;
  }
  // Bytes that were never written read as zero. Returns how many there were before the end.
  std::size_t read(std::uint64_t offset, MutableByteView into) const noexcept;
  void write(std::uint64_t offset, ByteView bytes);  // grows the file
  // Writes without growing: bytes beyond the size stay invisible until the file grows.
  void poke(std::uint64_t offset, ByteView bytes);
  // The bytes at [offset, offset + into.size()) whatever the size is.
  void peek(std::uint64_t offset, MutableByteView into) const noexcept;
  std::uint64_t hash() const noexcept;

 private:
  struct Page {
    std::array<std::byte, page_size> bytes{};
    mutable std::uint64_t hash = 0;
    mutable bool hashed = false;
  };
  Page& own(std::size_t index);
  static std::uint64_t hash_of(const Page& page) noexcept;

  std::vector<std::shared_ptr<Page>> pages_;  // null: zeros
  std::uint64_t size_ = 0;
};

class Image {
 public:
  struct Entry {
    bool directory = false;
    std::uint64_t inode = 0;
  };

  // Paths are relative to the root, without slashes at either end; "" is the root.
  static std::string normalise(std::string_view path);
  static std::string_view parent(std::string_view path) noexcept;

  const Entry* find(std::string_view path) const;
  bool has_directory(std::string_view path) const;
  const FileData* data(std::uint64_t inode) const;
  FileData& own(std::uint64_t inode);  // made empty if there is none
  std::vector<std::string> list(std::string_view directory) const;
  // Drops names whose directory is missing, and files without a name for which keep(inode) is false.
  template <class Keep>
  void prune(Keep keep);
  // Depends on names and contents only, not on how they came about.
  std::uint64_t hash() const;
  std::uint64_t bytes() const;

  // For tests: a whole file by its path.
  std::string text(std::string_view path) const;
  void put(std::string_view path, std::string_view text, std::uint64_t inode);

  std::map<std::string, Entry, std::less<>> names;
  std::map<std::uint64_t, std::shared_ptr<FileData>> files;

 private:
  void drop_orphan_names();
};

template <class Keep>
void Image::prune(Keep keep) {
  drop_orphan_names();
  std::map<std::uint64_t, std::shared_ptr<FileData>> named;
  for (const auto& [path, entry] : names)
    if (!entry.directory) {
      std::shared_ptr<FileData>& data = files[entry.inode];
      if (data == nullptr) data = std::make_shared<FileData>();
      named[entry.inode] = data;
    }
  for (auto& [inode, data] : files)
    if (keep(inode)) named[inode] = data;
  files = std::move(named);
}

}  // namespace cairn::io::sim
