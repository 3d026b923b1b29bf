#include "cairn/key_file.h"

#include "base/ascii.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "crypto/pem.h"
#include "io/entropy.h"
#include "io/small_file.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;

constexpr std::size_t pem_max = 16 << 10;

bool is_there(const std::string& path) {
  struct stat is{};
  return ::lstat(path.c_str(), &is) == 0;
}

Failure broken(const std::string& path, const Error& error) {
  return Failure(error.code, fmt::format("{} {}", path, error.context));
}

Outcome<> check_private(const std::string& path) {
  struct stat is{};
  if (::stat(path.c_str(), &is) == 0 && (is.st_mode & 077) != 0)
    return fail(Failure(ErrorCode::not_allowed,
                        fmt::format("{} can be read by others (mode {:04o}); make it private: chmod 600 {}",
                                    path, static_cast<unsigned>(is.st_mode & 07777), path)));
  return {};
}

Outcome<> make_key_directory(const std::string& data) {
  TRY_VOID(make_private_directory(data));
  TRY_VOID(make_private_directory(data + "/keys"));
  return check_key_directory(data);
}

Outcome<> write_key(const std::string& data, std::string_view name, const crypto::Ed25519Key& key) {
  TRY_VOID(make_key_directory(data));
  std::string pem = crypto::format_private_pem(key);
  const std::string path = key_path(data, name);
  const Result<> written = io::replace_file(path, pem);
  crypto::wipe(pem);
  if (!written) return fail(broken(path, written.error()));
  const std::string beside = public_key_path(data, name);
  if (const auto also = io::replace_file(beside, crypto::format_public_pem(key.public_key())); !also)
    return fail(broken(beside, also.error()));
  return {};
}

}  // namespace

bool is_key_name(std::string_view name) noexcept {
  constexpr std::string_view reserved[] = {"capability-root", "admin", log_key_name, node_key_name};
  if (name.empty() || name.size() > 64 || name[0] == '.' || name[0] == '-') return false;
  const bool plain = std::ranges::all_of(
      name, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '@' || c == '-'; });
  return plain && std::ranges::find(reserved, name) == std::end(reserved);
}

std::string key_path(const std::string& data, std::string_view name) {
  return fmt::format("{}/keys/{}.key", data, name);
}
std::string public_key_path(const std::string& data, std::string_view name) {
  return fmt::format("{}/keys/{}.pub", data, name);
}

crypto::Ed25519Key new_signing_key() {
  std::array<std::byte, 32> seed;
  io::KernelEntropy().fill(seed);
  crypto::Ed25519Key key(seed);
  crypto::wipe(seed);
  return key;
}

Outcome<crypto::Ed25519Key> load_key(const std::string& data, std::string_view name) {
  const std::string path = key_path(data, name);
  TRY_VOID(check_key_directory(data));
  TRY_VOID(check_private(path));
  auto text = io::read_small_file(path, pem_max);
  if (!text) return fail(broken(path, text.error()));
  auto key = crypto::parse_private_pem(*text);
  crypto::wipe(*text);
  if (!key)
    return fail(Failure(ErrorCode::invalid, fmt::format("{} is not an Ed25519 key in PEM (PKCS#8)", path)));
  return std::move(*key);
}

Outcome<crypto::Ed25519Key> make_key(const std::string& data, std::string_view name) {
  for (const std::string& path : {key_path(data, name), public_key_path(data, name)})
    if (is_there(path)) return fail(Failure(ErrorCode::conflict, fmt::format("{} is there already", path)));
  crypto::Ed25519Key key = new_signing_key();
  TRY_VOID(write_key(data, name, key));
  return key;
}

Outcome<KeptKey> load_or_make_key(const std::string& data, std::string_view name) {
  if (!is_there(key_path(data, name))) {
    TRY(crypto::Ed25519Key made, make_key(data, name));
    return KeptKey{std::move(made), true};
  }
  TRY(crypto::Ed25519Key key, load_key(data, name));
  const std::string beside = public_key_path(data, name);
  if (!is_there(beside)) {
    if (const auto also = io::replace_file(beside, crypto::format_public_pem(key.public_key())); !also)
      return fail(broken(beside, also.error()));
  }
  return KeptKey{std::move(key), false};
}

Outcome<PublicKey> find_public_key(const std::string& data, std::string_view name) {
  const bool has_private = is_there(key_path(data, name));
  const std::string path = public_key_path(data, name);
  if (const auto text = io::read_small_file(path, pem_max)) {
    const auto key = crypto::parse_public_pem(*text);
    if (!key)
      return fail(Failure(ErrorCode::invalid, fmt::format("{} is not an Ed25519 public key in PEM", path)));
    return PublicKey{std::string(name), *key, has_private};
  }
  if (!has_private)
    return fail(Failure(ErrorCode::not_found, fmt::format("no key {} in {}/keys", name, data)));
  TRY(const crypto::Ed25519Key key, load_key(data, name));
  return PublicKey{std::string(name), key.public_key(), true};
}

Outcome<std::vector<PublicKey>> list_keys(const std::string& data) {
  std::error_code problem;
  std::set<std::string> names;
  for (std::filesystem::directory_iterator at(data + "/keys", problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::filesystem::path& path = at->path();
    if (path.extension() == ".key" || path.extension() == ".pub") names.insert(path.stem().string());
  }
  if (problem)
    return fail(
        Failure(problem == std::errc::no_such_file_or_directory ? ErrorCode::not_found : ErrorCode::io_failed,
                fmt::format("{}/keys cannot be read: {}", data, problem.message())));
  std::vector<PublicKey> keys;
  for (const std::string& name : names)
    if (auto key = find_public_key(data, name)) keys.push_back(std::move(*key));
  return keys;
}

Outcome<> check_key_directory(const std::string& data) {
  const std::string keys = data + "/keys";
  struct stat is{}, around{};
  if (::stat(keys.c_str(), &is) != 0 || ::stat(data.c_str(), &around) != 0) return {};
  if (is.st_uid != around.st_uid && is.st_uid != 0)
    return fail(Failure(ErrorCode::not_allowed,
                        fmt::format("{} belongs to another user ({}) than {} ({}): its keys are not taken",
                                    keys, is.st_uid, data, around.st_uid)));
  if ((is.st_mode & 022) != 0)
    return fail(
        Failure(ErrorCode::not_allowed,
                fmt::format("{} can be written to by others (mode {:04o}); make it private: chmod 700 {}",
                            keys, static_cast<unsigned>(is.st_mode & 07777), keys)));
  return {};
}

Outcome<> make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return fail(Failure(ErrorCode::io_failed, fmt::format("cannot make {}: {}", path, std::strerror(errno))));
}

}  // namespace cairn::cli
