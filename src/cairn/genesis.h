// Genesis: the first version of a registry, the keys of its signers and of its log, and the trust roots that
// verifiers pin. Made once, by `cairn registry init` or by the first `cairn up`.
//
// A registry is there when registry/genesis.cbor is: it is written last, so that what a crash left half done
// is done again. Everything here blocks: never on a shard that serves.
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
// There was one: the data directory has the mark of it, which is made after genesis. None is made in its
// place.
bool lost_registry(const std::string& data);
std::string trust_roots_path(const std::string& data);

// Refused where there is one already. Key files that are there are used. Errors are text for people.
std::expected<Made, std::string> make_registry(const std::string& data, unsigned m,
                                               std::vector<std::string> signers);
// That genesis, trust roots and log key belong together is checked.
std::expected<LoadedGenesis, std::string> load_registry(const std::string& data);

// Without a disk: everything lives and dies with the process.
struct GenesisInMemory {
  LoadedGenesis loaded;
  std::string signer;  // the one there is
  crypto::Ed25519Key signer_key;
};
GenesisInMemory make_registry_in_memory(std::string signer = "operator");

}  // namespace cairn::cli
