// Registering a node: its descriptor in the registry, proposed, approved and committed only when it differs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/failure.h"
#include "crypto/ed25519.h"
#include "io/machine.h"
#include "io/tls_context.h"

namespace cairn::cli {

struct NodeRegistration {
  std::string registry;                           // HOST:PORT, https://HOST:PORT or unix:PATH
  std::shared_ptr<const io::TlsClient> tls = {};  // who vouches for it at https://
  std::string token;
  std::string addr;  // of the node's service
  std::vector<std::string> roles;
  std::string_view signer;
  const crypto::Ed25519Key* key = nullptr;  // outlives the call; null: no key
};

// Succeeds also when the node is already registered. Cancel: partial — a proposal may be left behind.
Task<client::Outcome<>> register_node(Call call, io::Machine* machine, NodeRegistration wanted);

}  // namespace cairn::cli
