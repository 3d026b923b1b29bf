#include "cairn/data_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cairn/key_file.h"
#include "cairn/local_files.h"
#include "crypto/secret_bytes.h"
#include "io/entropy.h"
#include "io/process.h"
#include "io/small_file.h"

namespace cairn::cli {
namespace {

// A process that writes in keys/ holds this lock.
std::string keys_lock_path(const std::string& directory) { return directory + "/keys.lock"; }

std::expected<void, std::string> make_private(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return std::unexpected(fmt::format("cannot make {}: {}", path, std::strerror(errno)));
}

crypto::RootKey fresh_key() {
  io::KernelEntropy entropy;
  std::array<std::byte, 40> seed;
  entropy.fill(seed);
  crypto::RootKey key = crypto::make_root_key(seed, io::wall_clock());
  crypto::wipe(seed);
  return key;
}
crypto::KeyRing fresh_ring() { return crypto::KeyRing(fresh_key()); }

// Whether the file holds a token of which `holds` is true.
template <class Holds>
bool has_token(const std::string& path, Holds holds) {
  auto text = io::read_small_file(path, 16 << 10);
  if (!text) return false;
  const std::string_view token = std::string_view(*text).substr(0, text->find_last_not_of("\n\r ") + 1);
  const bool held = holds(token);
  crypto::wipe(*text);
  return held;
}

// A capability for everything. The administrator narrows it before handing it on.
std::string mint_admin(const crypto::KeyRing& ring) {
  io::KernelEntropy entropy;
  std::array<std::uint64_t, 2> random;
  entropy.fill(std::as_writable_bytes(std::span(random)));
  const crypto::RootKey* key = ring.find_minting();
  if (key == nullptr) return {};
  return crypto::format_token(crypto::mint(*key, "cairn", make_ulid(io::wall_clock(), random[0], random[1])));
}

Result<> write_admin(const std::string& path, const crypto::KeyRing& ring) {
  std::string token = mint_admin(ring);
  const Result<> written = io::replace_file(path, token + "\n");
  crypto::wipe(token);
  return written;
}

// Whether the token was minted under a key that the ring says is revoked. A key that the ring does not know
// may be of a later ring.
bool is_revoked(std::string_view token, const crypto::KeyRing& ring) {
  const auto macaroon = crypto::parse_token(token);
  const auto identifier = macaroon ? crypto::parse_identifier(macaroon->identifier) : std::nullopt;
  const crypto::RootKey* key = identifier ? ring.find(identifier->key_id) : nullptr;
  return key != nullptr && key->revoked;
}

std::expected<void, std::string> check_private(const std::string& path) {
  struct stat is{};
  if (::stat(path.c_str(), &is) != 0) return {};
  if ((is.st_mode & 077) == 0) return {};
  return std::unexpected(fmt::format("{} can be read by others (mode {:04o}); make it private: chmod 600 {}",
                                     path, static_cast<unsigned>(is.st_mode & 07777), path));
}

}  // namespace

std::string lock_path(const std::string& directory, std::string_view service) {
  return fmt::format("{}/{}.lock", directory, service);
}

std::string admin_capability_path(const std::string& directory) { return directory + "/keys/admin.cap"; }

std::expected<std::vector<ServiceLock>, std::string> lock_data_directory(
    const std::string& directory, const std::vector<std::string>& writers) {
  std::vector<ServiceLock> locks;
  if (auto made = make_private(directory); !made) return std::unexpected(made.error());
  for (const std::string& service : writers) {
    auto lock = io::LockFile::take(directory, service + ".lock", io::wall_clock());
    if (!lock) return std::unexpected(lock.error());
    locks.push_back({service, std::move(*lock)});
  }
  return locks;
}

std::expected<Prepared, std::string> prepare_data_directory(const std::string& directory,
                                                            const std::vector<std::string>& writers) {
  Prepared prepared;
  const std::string keys = directory + "/keys", root = keys + "/capability-root.key",
                    admin = admin_capability_path(directory);
  auto locks = lock_data_directory(directory, writers);
  if (!locks) return std::unexpected(locks.error());
  prepared.locks = std::move(*locks);
  // Services that run apart share the keys, and may start for the first time at the same moment.
  const auto alone = io::LockFile::wait_for(keys_lock_path(directory));
  if (!alone) return std::unexpected(fmt::format("{}: {}", keys_lock_path(directory), alone.error().context));
  if (auto made = make_private(keys); !made) return std::unexpected(made.error());
  if (auto ours = check_key_directory(directory); !ours) return std::unexpected(ours.error().message);
  if (auto secret = check_private(root); !secret) return std::unexpected(secret.error());
  if (auto secret = check_private(admin); !secret) return std::unexpected(secret.error());
  if (!io::mark_file(root)) {
    if (io::mark_file(admin))
      return std::unexpected(fmt::format(
          "{0} is gone, and with a new one every token is void: restore it, or remove {1} to begin "
          "with a new one",
          root, admin));
    if (auto made = serve::RootKeys::create(root, fresh_ring());
        !made && made.error().code != ErrorCode::conflict)
      return std::unexpected(fmt::format("cannot write {}: {}", root, made.error().context));
    prepared.made = true;
  }
  auto opened = serve::RootKeys::open(root);
  if (!opened) return std::unexpected(fmt::format("{}: {}", root, opened.error().context));
  prepared.keys = std::move(*opened);
  // All keys were revoked: without a new one no capability could ever be minted here again.
  if (prepared.keys->current()->ring.find_minting() == nullptr)
    if (auto rotated = prepared.keys->rotate(fresh_key()); !rotated)
      return std::unexpected(fmt::format("{}: {}", root, rotated.error().context));
  const crypto::KeyRing& ring = prepared.keys->current()->ring;
  const auto is_good = [&](std::string_view token) { return crypto::authenticate(ring, token).has_value(); };
  if (!has_token(admin, is_good)) {
    const Result<> written = write_admin(admin, ring);
    if (!written) return std::unexpected(fmt::format("cannot write {}: {}", admin, written.error().context));
  }
  return prepared;
}

Result<> renew_admin_capability(const std::string& directory, const crypto::KeyRing& ring) {
  TRY(const io::LockFile alone, io::LockFile::wait_for(keys_lock_path(directory)));
  const std::string admin = admin_capability_path(directory);
  if (!has_token(admin, [&](std::string_view token) { return is_revoked(token, ring); })) return {};
  return write_admin(admin, ring);
}

std::expected<Prepared, std::string> prepare_amnesia(const std::string& directory,
                                                     const std::vector<std::string>& writers) {
  auto prepared = prepare_without_keys(directory, writers);
  if (!prepared) return prepared;
  crypto::KeyRing ring = fresh_ring();
  prepared->admin = mint_admin(ring);
  prepared->keys = std::make_unique<serve::RootKeys>(std::move(ring));
  prepared->made = true;
  return prepared;
}

std::expected<Prepared, std::string> prepare_without_keys(const std::string& directory,
                                                          const std::vector<std::string>& writers) {
  Prepared prepared;
  if (writers.empty()) return prepared;
  auto locks = lock_data_directory(directory, writers);
  if (!locks) return std::unexpected(locks.error());
  prepared.locks = std::move(*locks);
  return prepared;
}

namespace {

constexpr std::size_t stores_max = 64 << 10;

std::string stores_path(const std::string& directory, std::string_view service) {
  return fmt::format("{}/{}.stores", directory, service);
}

// A store inside the data directory, which may be moved, is named by its place in it; any other by its path.
std::string name_of_store(const std::string& directory, const std::string& store) {
  const std::string inside = absolute_path(directory) + '/', path = absolute_path(store);
  return path.starts_with(inside) ? path.substr(inside.size()) : path;
}

bool has_segments(const std::string& store) {
  std::error_code problem;
  for (std::filesystem::directory_iterator at(store + "/segments", problem), end; !problem && at != end;
       at.increment(problem))
    if (at->path().extension() == ".seg" || at->path().filename() == "key") return true;
  return false;
}

}  // namespace

std::expected<void, std::string> check_stores(const std::string& directory, std::string_view service,
                                              const std::vector<std::string>& stores) {
  const std::string path = stores_path(directory, service);
  const auto text = io::read_small_file(path, stores_max);
  if (!text && text.error().code == ErrorCode::not_found) return {};
  if (!text) return std::unexpected(fmt::format("{} {}", path, text.error().context));
  for (const std::string& store : stores)
    if (("\n" + *text).find("\n" + name_of_store(directory, store) + "\n") != std::string::npos &&
        !has_segments(store))
      return std::unexpected(fmt::format(
          "{0} says that there was a store in {1}, and its segments are gone: mount or restore it, or "
          "remove {0} to begin a new one",
          path, store));
  return {};
}

std::expected<void, std::string> note_stores(const std::string& directory, std::string_view service,
                                             const std::vector<std::string>& stores) {
  std::string text;
  for (const std::string& store : stores)
    if (has_segments(store)) text += name_of_store(directory, store) + "\n";
  const std::string path = stores_path(directory, service);
  if (io::read_small_file(path, stores_max).value_or("") == text) return {};
  if (const auto written = io::replace_file(path, text); !written)
    return std::unexpected(fmt::format("{} {}", path, written.error().context));
  return {};
}

}  // namespace cairn::cli
