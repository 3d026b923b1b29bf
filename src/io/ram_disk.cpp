#include "io/ram_disk.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace cairn::io {

// The capacity that is left, shared by the disk and every open file.
//
// Atomic: one counter; it publishes no other memory, so the order is relaxed.
struct RamDisk::Room {
  explicit Room(std::uint64_t capacity) noexcept : left(static_cast<std::int64_t>(capacity)) {}
  std::atomic<std::int64_t> left;
  bool try_take(std::uint64_t bytes) noexcept {
    const auto count = static_cast<std::int64_t>(bytes);
    if (left.fetch_sub(count, std::memory_order_relaxed) >= count) return true;
    give(bytes);
    return false;
  }
  void give(std::uint64_t bytes) noexcept {
    left.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
};

struct RamDisk::Content {
  static constexpr std::size_t block = 64 << 10;
  struct Bytes {
    std::vector<std::unique_ptr<std::byte[]>> blocks;
    std::uint64_t size = 0;
  };
  explicit Content(std::shared_ptr<Room> of) : room(std::move(of)) {}
  ~Content() {
    room->give(bytes.with([](Bytes& all) { return all.blocks.size(); }) * block);
  }

  std::size_t read(std::uint64_t offset, MutableByteView into) const {
    return bytes.with([&](const Bytes& all) {
      std::size_t done = 0;
      while (done < into.size() && offset + done < all.size) {
        const std::uint64_t at = offset + done;
        const std::size_t inside = at % block;
        const std::size_t count = static_cast<std::size_t>(
            std::min<std::uint64_t>({into.size() - done, block - inside, all.size - at}));
        std::memcpy(into.data() + done, all.blocks[at / block].get() + inside, count);
        done += count;
      }
      return done;
    });
  }
  Result<> write(std::uint64_t offset, ByteView from) {
    return bytes.with([&](Bytes& all) -> Result<> {
      TRY_VOID(grow(all, offset + from.size()));
      for (std::size_t done = 0; done < from.size();) {
        const std::uint64_t at = offset + done;
        const std::size_t inside = at % block;
        const std::size_t count = std::min(from.size() - done, block - inside);
        std::memcpy(all.blocks[at / block].get() + inside, from.data() + done, count);
        done += count;
      }
      all.size = std::max(all.size, offset + from.size());
      return {};
    });
  }
  Result<> resize(std::uint64_t size) {
    return bytes.with([&](Bytes& all) -> Result<> {
      TRY_VOID(grow(all, size));
      const std::size_t needed = static_cast<std::size_t>((size + block - 1) / block);
      room->give((all.blocks.size() - needed) * block);
      all.blocks.resize(needed);
      // The bytes cut off must read as zeros if the file grows again.
      if (size % block != 0) std::memset(all.blocks.back().get() + size % block, 0, block - size % block);
      all.size = size;
      return {};
    });
  }
  std::uint64_t size() const {
    return bytes.with([](const Bytes& all) { return all.size; });
  }

  std::shared_ptr<Room> room;
  Guarded<Bytes, ram_bytes_lock.rank> bytes;

 private:
  Result<> grow(Bytes& all, std::uint64_t size) const {
    while (all.blocks.size() * block < size) {
      if (!room->try_take(block)) return fail(ErrorCode::storage_full, "no memory is left for this");
      all.blocks.push_back(std::make_unique<std::byte[]>(block));
    }
    return {};
  }
};

namespace {

class RamFile final : public File {
 public:
  explicit RamFile(std::shared_ptr<RamDisk::Content> content) noexcept : content_(std::move(content)) {}

  Result<std::size_t> try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept override {
    const std::size_t got = content_->read(offset, into.room().first(std::min(count, into.room().size())));
    into.fill(got);
    return got;
  }
  Task<Result<Buffer>> read(Call, std::uint64_t offset, std::size_t count, Buffer into) override {
    CO_TRY_VOID(try_read(offset, count, into));
    co_return std::move(into);
  }
  Task<Result<Buffer>> write(Call, std::uint64_t offset, Buffer from) override {
    CO_TRY_VOID(content_->write(offset, from.bytes()));
    co_return std::move(from);
  }
  Result<std::size_t> try_read_into(std::uint64_t offset, MutableByteView into) noexcept override {
    return content_->read(offset, into);
  }
  Task<Result<std::size_t>> read_into(Call, std::uint64_t offset, Region into) override {
    co_return content_->read(offset, into.bytes);
  }
  Task<Result<>> write_blocks(Call, std::uint64_t offset, std::vector<HeapBytes> blocks, Sync) override {
    for (const HeapBytes& block : blocks) {
      CO_TRY_VOID(content_->write(offset, block.bytes()));
      offset += block.size();
    }
    co_return Result<>{};
  }
  Task<Result<>> sync_data(Call) override { co_return Result<>{}; }
  Task<Result<>> truncate(Call, std::uint64_t size) override { co_return content_->resize(size); }
  Result<std::uint64_t> size() const noexcept override { return content_->size(); }
  int descriptor() const noexcept override { return -1; }

 private:
  std::shared_ptr<RamDisk::Content> content_;
};

}  // namespace

RamDisk::RamDisk(std::uint64_t capacity) : capacity_(capacity), room_(std::make_shared<Room>(capacity)) {}
RamDisk::~RamDisk() = default;

Task<Result<std::unique_ptr<File>>> RamDisk::open(Call, std::string path, OpenMode mode) {
  auto content = names_.with([&](Names& names) -> Result<std::shared_ptr<Content>> {
    const auto found = names.files.find(path);
    if (mode == OpenMode::create_new) {
      if (found != names.files.end()) return fail(ErrorCode::conflict, "open");
      return names.files[path] = std::make_shared<Content>(room_);
    }
    if (found == names.files.end()) return fail(ErrorCode::not_found, "open");
    return found->second;
  });
  if (!content) co_return fail(content.error());
  co_return std::make_unique<RamFile>(std::move(*content));
}

Task<Result<>> RamDisk::rename(Call, std::string from, std::string to) {
  co_return names_.with([&](Names& names) -> Result<> {
    const auto found = names.files.find(from);
    if (found == names.files.end()) return fail(ErrorCode::not_found, "rename");
    names.files[to] = std::move(found->second);
    names.files.erase(from);
    return {};
  });
}

Task<Result<>> RamDisk::unlink(Call, std::string path) {
  co_return names_.with([&](Names& names) -> Result<> {
    if (names.files.erase(path) == 0) return fail(ErrorCode::not_found, "unlink");
    return {};
  });
}

Task<Result<>> RamDisk::make_directory(Call, std::string path) {
  co_return names_.with([&](Names& names) -> Result<> {
    if (!names.directories.emplace(path, true).second) return fail(ErrorCode::conflict, "mkdir");
    return {};
  });
}

Task<Result<std::vector<std::string>>> RamDisk::list(Call, std::string path) {
  co_return names_.with([&](Names& names) -> Result<std::vector<std::string>> {
    if (!names.directories.contains(path)) return fail(ErrorCode::not_found, "list");
    std::vector<std::string> found;
    const std::string prefix = path + "/";
    const auto collect = [&](const std::string& name) {
      if (name.starts_with(prefix) && name.find('/', prefix.size()) == std::string::npos)
        found.push_back(name.substr(prefix.size()));
    };
    for (const auto& [name, content] : names.files) collect(name);
    for (const auto& [name, made] : names.directories) collect(name);
    std::sort(found.begin(), found.end());
    return found;
  });
}

Task<Result<>> RamDisk::sync_directory(Call, std::string) { co_return Result<>{}; }

Task<Result<FreeSpace>> RamDisk::free_space(Call, std::string) {
  co_return FreeSpace{.bytes = static_cast<std::uint64_t>(
                          std::max<std::int64_t>(0, room_->left.load(std::memory_order_relaxed)))};
}

Task<Result<std::uint64_t>> RamDisk::total_space(Call, std::string) { co_return capacity_; }

}  // namespace cairn::io
