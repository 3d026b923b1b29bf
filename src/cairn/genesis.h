// Genesis: the first version of a registry, the keys of its signers and of its log, and the trust roots that
// verifiers pin. Made once, by `cairn registry init` or by the first `cairn up`.
//
// A registry exists if registry/genesis.cbor exists. That file is written last, so that a genesis that a
// crash interrupted is made again. Everything here blocks: never on a shard that serves.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "crypto/ed25519.h"
#include "format/signed_commit.h"

namespace cairn::cli {

struct LoadedGenesis {
  format::Genesis genesis;
  format::TrustRoots roots;
  crypto::Ed25519Key log_key;
};

struct MadeSigner {
  std::string id;
  crypto::Ed25519PublicKey key{};
  std::string path;   // of the private key
  bool made = false;  // false: the key was there
};
struct Made {
  LoadedGenesis loaded;
  std::vector<MadeSigner> signers;
};

bool has_registry(const std::string& data);
// Whether there was a registry that is gone: the data directory still has the marker that is made after
// genesis. No new registry is made in its place.
bool lost_registry(const std::string& data);
std::string trust_roots_path(const std::string& data);

// Fails if a registry exists. Existing key files are used. Errors are text for people.
std::expected<Made, std::string> make_registry(const std::string& data, unsigned m,
                                               std::vector<std::string> signers);
// Checks that genesis, trust roots and log key belong together.
std::expected<LoadedGenesis, std::string> load_registry(const std::string& data);

// Without a disk: everything lives and dies with the process.
struct GenesisInMemory {
  LoadedGenesis loaded;
  std::string signer;  // the only one
  crypto::Ed25519Key signer_key;
};
GenesisInMemory make_registry_in_memory(std::string signer = "operator");

}  // namespace cairn::cli
