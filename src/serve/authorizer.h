// Authorizer: checks bearer tokens on one shard: is the token genuine, and do its caveats hold for this
// request?
//   [Z-1] A token counts only under the newest keys that this shard was given: new keys void every earlier
//         verdict.
//   [Z-2] Caveats are checked for every request; the only fact that is remembered is that a token is genuine.
//   [Z-3] No part of a token gets into an error.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/key_ring.h"
#include "http/fields.h"
#include "serve/principal.h"

namespace cairn::serve {

// The root keys of one moment, the same for every shard and service of a process.
struct KeySnapshot {
  std::uint64_t version = 0;  // the later, the higher
  crypto::KeyRing ring;
};
using KeySnapshotPtr = std::shared_ptr<const KeySnapshot>;

class Authorizer {
 public:
  explicit Authorizer(KeySnapshotPtr keys);
  ~Authorizer();
  Authorizer(const Authorizer&) = delete;
  Authorizer& operator=(const Authorizer&) = delete;

  // Keys come from several places. Keys that are older than the present ones change nothing.
  void take_keys(KeySnapshotPtr keys);
  std::uint64_t version() const noexcept { return keys_->version; }

  // The bearer of the token; valid until the next authorize(). `unauthorized` without one genuine
  // `Authorization: Bearer` token, `forbidden` when a caveat does not hold.
  Result<const Principal*> authorize(const http::Fields& fields, const crypto::CapabilityRequest& request);

  // The tenant of a genuine token, before it is known what is asked for: of `request` the time and the peer
  // count. Empty: the token is bound to none, or cannot be used by this peer now, so that its word for the
  // tenant is not taken either. Valid until the next call. `unauthorized` as above.
  Result<std::string_view> find_tenant(const http::Fields& fields, const crypto::CapabilityRequest& request);

  // How many tokens were verified in full, for tests.
  std::uint64_t verified() const noexcept { return verified_; }

 private:
  // A busy client sends the same token with each request: the chain of MACs is computed once for it. Only
  // genuine tokens are kept, so invented ones cannot push them out.
  struct Known {
    std::string token;
    crypto::Macaroon macaroon;
    Principal principal;
  };
  static constexpr std::size_t known_max = 64;

  Result<const Known*> find_genuine(const http::Fields& fields);
  void forget() noexcept;

  KeySnapshotPtr keys_;
  std::array<Known, known_max> known_;  // by hash; an empty token: none
  std::uint64_t verified_ = 0;
};

// The text behind `Bearer` in the one Authorization field; empty when there is none, or more than one.
std::string_view find_bearer(const http::Fields& fields) noexcept;

}  // namespace cairn::serve
