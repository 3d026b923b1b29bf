#include "cairn/tls_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cairn/key_file.h"
#include "crypto/certificate.h"
#include "io/process.h"
#include "io/small_file.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;

constexpr std::size_t pem_max = 64 << 10;
constexpr Duration day = Duration::seconds(24 * 3600);
constexpr Duration authority_lasts = day * 3650;
// Browsers refuse certificates of servers that last longer.
constexpr Duration certificate_lasts = day * 397;
// The certificate of `up --tls` is made anew at a start, this long before its end.
constexpr Duration renewed_before = day * 30;
constexpr std::string_view local_name = "localhost";

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string directory_of(const std::string& data) { return data + "/keys/tls"; }
std::string authority_path(const std::string& data) { return directory_of(data) + "/ca.pem"; }

// The name as a part of a file's name: none has a slash, and `*` would be a pattern to shells.
TlsFiles files_of(const std::string& data, std::string name) {
  std::ranges::replace(name, '*', '_');
  std::ranges::replace(name, ':', '_');
  return {authority_path(data), fmt::format("{}/{}.pem", directory_of(data), name),
          fmt::format("{}/{}.key", directory_of(data), name)};
}

Failure broken(const std::string& path, const Error& error) {
  return Failure(error.code, fmt::format("{} {}", path, error.context));
}

Outcome<> write(const std::string& path, const std::string& text) {
  if (const auto written = io::replace_file(path, text); !written) return fail(broken(path, written.error()));
  return {};
}

Outcome<> write(const std::string& certificate, const std::string& key, const crypto::Certified& made) {
  TRY_VOID(write(key, made.key.reveal()));
  return write(certificate, made.certificate);
}

Outcome<> make_directory(const std::string& data) {
  TRY_VOID(make_private_directory(data));
  TRY_VOID(make_private_directory(data + "/keys"));
  TRY_VOID(check_key_directory(data));
  return make_private_directory(directory_of(data));
}

Outcome<crypto::Certified> load_or_make_authority(const std::string& data) {
  const std::string path = authority_path(data), key_path = directory_of(data) + "/ca.key";
  if (is_there(path)) {
    auto certificate = io::read_regular_file(path, pem_max);
    if (!certificate) return fail(broken(path, certificate.error()));
    auto key = io::read_private_file(key_path, pem_max);
    if (!key) return fail(broken(key_path, key.error()));
    return crypto::Certified{std::move(*certificate), std::move(*key)};
  }
  auto made = crypto::make_authority("cairn local authority", io::wall_clock(), authority_lasts);
  if (!made) return fail(Failure(made.error()));
  TRY_VOID(write(path, key_path, *made));
  return std::move(*made);
}

// Files that cannot be used are left alone: the start says what is wrong with them. So are those that another
// authority has signed: somebody has put them there.
bool ends_soon(const TlsFiles& files) {
  const auto authority = io::read_regular_file(files.authority, pem_max);
  auto chain = io::read_regular_file(files.certificate, pem_max);
  auto key = io::read_private_file(files.key, pem_max);
  if (!authority || !chain || !key || !crypto::is_issued_by(*authority, *chain)) return false;
  const auto shown = io::TlsServer::make({.identities = {{std::move(*chain), std::move(*key), {}}}},
                                         std::make_shared<io::TlsTicketKeys>());
  return shown && (*shown)->ends().ms - io::wall_clock().ms < renewed_before.to_millis();
}

// Who speaks to this machine itself says its name or its addresses.
std::vector<std::string> with_addresses(std::vector<std::string> names) {
  if (names.size() == 1 && names.front() == local_name) names.insert(names.end(), {"127.0.0.1", "::1"});
  return names;
}

}  // namespace

Outcome<TlsFiles> make_tls_files(const std::string& data, const std::vector<std::string>& names) {
  if (names.front() == "ca") return fail(Failure(ErrorCode::invalid, "`ca` is the authority's own name"));
  TRY_VOID(make_directory(data));
  TRY(crypto::Certified authority, load_or_make_authority(data));
  auto made =
      crypto::issue_certificate(authority, with_addresses(names), io::wall_clock(), certificate_lasts);
  if (!made) return fail(Failure(made.error()));
  const TlsFiles files = files_of(data, names.front());
  TRY_VOID(write(files.certificate, files.key, *made));
  return files;
}

Outcome<TlsFiles> find_local_tls_files(const std::string& data) {
  TlsFiles files = files_of(data, std::string(local_name));
  if (is_there(files.certificate) && is_there(files.key) && !ends_soon(files)) return files;
  return make_tls_files(data, {std::string(local_name)});
}

Outcome<std::shared_ptr<const io::TlsClient>> load_trust(const Invocation& invocation,
                                                         const std::string& data, bool own) {
  std::string path(invocation.get("ca", ""));
  if (path.empty())
    if (const char* given = std::getenv("CAIRN_CA"); given != nullptr) path = given;
  if (path.empty() && own && is_there(authority_path(data))) path = authority_path(data);
  io::TlsClientOptions options;
  if (!path.empty()) {
    auto text = io::read_regular_file(path, 16 * pem_max);
    if (!text) return fail(broken(path, text.error()));
    if (text->empty()) return fail(Failure(ErrorCode::invalid, fmt::format("{} is empty", path)));
    options.authorities = std::move(*text);
  }
  auto made = io::TlsClient::make(options);
  if (!made) return fail(Failure(ErrorCode::invalid, fmt::format("{}: {}", path, made.error())));
  return std::move(*made);
}

}  // namespace cairn::cli
