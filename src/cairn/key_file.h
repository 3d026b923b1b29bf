// Keys that sign, as files: keys/NAME.key and keys/NAME.pub of a data directory, in PEM.
//
//   [KY-1] A private key that others could read is not used.
//   [KY-2] A key file that is there is never overwritten.
//   [KY-3] Keys are not taken from a directory in which somebody else could put his own.
// Everything here blocks: never on a shard that serves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/failure.h"
#include "crypto/ed25519.h"

namespace cairn::cli {

// Also a signer's id, and safe as the name of a file. The names of the server's own keys are not to be had.
bool is_key_name(std::string_view name) noexcept;
// The key that signs checkpoints.
inline constexpr std::string_view log_key_name = "registry-log";

std::string key_path(const std::string& data, std::string_view name);
std::string public_key_path(const std::string& data, std::string_view name);

crypto::Ed25519Key new_signing_key();

client::Outcome<crypto::Ed25519Key> load_key(const std::string& data, std::string_view name);
// `conflict` when it is there. Makes the directories.
client::Outcome<crypto::Ed25519Key> make_key(const std::string& data, std::string_view name);
struct KeptKey {
  crypto::Ed25519Key key;
  bool made = false;
};
client::Outcome<KeptKey> load_or_make_key(const std::string& data, std::string_view name);

struct PublicKey {
  std::string name;
  crypto::Ed25519PublicKey key{};
  bool has_private = false;  // NAME.key is there too
};
client::Outcome<PublicKey> find_public_key(const std::string& data, std::string_view name);
// By name. Files that are no such keys are left out.
client::Outcome<std::vector<PublicKey>> list_keys(const std::string& data);

// [KY-3] of `data`/keys, where it is there: its owner is the data directory's or root, and nobody else may
// write to it.
client::Outcome<> check_key_directory(const std::string& data);

// 0700; its parent must be there.
client::Outcome<> make_private_directory(const std::string& path);

}  // namespace cairn::cli
