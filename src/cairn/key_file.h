// Keys that sign, as files: keys/NAME.key and keys/NAME.pub of a data directory, in PEM.
//
//   [KY-1] A private key that other users could read is not used.
//   [KY-2] An existing key file is never overwritten.
//   [KY-3] Keys are not taken from a directory into which another user could put a key.
// Everything here blocks: never on a shard that serves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/failure.h"
#include "crypto/ed25519.h"

namespace cairn::cli {

// Whether `name` may be a key's name: valid as a signer's id, safe as a file's name, and none of the server's
// own key names.
bool is_key_name(std::string_view name) noexcept;
// The key that signs checkpoints.
inline constexpr std::string_view log_key_name = "registry-log";
// The key of this node: it signs changes of names.
inline constexpr std::string_view node_key_name = "node";

std::string key_path(const std::string& data, std::string_view name);
std::string public_key_path(const std::string& data, std::string_view name);

crypto::Ed25519Key new_signing_key();

client::Outcome<crypto::Ed25519Key> load_key(const std::string& data, std::string_view name);
// `conflict` when the key exists. Makes the directories.
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
// Sorted by name. Files that are not such keys are left out.
client::Outcome<std::vector<PublicKey>> list_keys(const std::string& data);

// Checks [KY-3] for `data`/keys, if it exists: its owner is the data directory's owner or root, and no other
// user may write to it.
client::Outcome<> check_key_directory(const std::string& data);

// Mode 0700; its parent must exist.
client::Outcome<> make_private_directory(const std::string& path);

}  // namespace cairn::cli
