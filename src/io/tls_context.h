// What both ends of TLS know before they meet: certificates, keys, trust, protocols. OpenSSL's contexts, made
// once and then shared by all shards, which only read them.
//   [TC-1] TLS 1.3 alone, or 1.2 too if it is asked for, with forward-secret AEAD suites only. No
//         renegotiation, no compression, no early data.
//   [TC-2] A client accepts a peer only with a chain to its authorities and the name that it asked for.
#pragma once

#include <expected>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "crypto/secret_bytes.h"
#include "io/tls_tickets.h"

struct bio_method_st;
struct evp_cipher_st;
struct ssl_ctx_st;
struct ssl_st;

namespace cairn {
class Shard;
}

namespace cairn::io {

// OpenSSL's objects, with their owners.
struct TlsRelease {
  void operator()(bio_method_st* method) const noexcept;
  void operator()(evp_cipher_st* cipher) const noexcept;
  void operator()(ssl_ctx_st* context) const noexcept;
  void operator()(ssl_st* connection) const noexcept;
};
template <class T>
using TlsOwned = std::unique_ptr<T, TlsRelease>;

enum class TlsVersion : std::uint8_t { tls12, tls13 };  // the lowest that is spoken

// A service's name in the world: a certificate with its chain, its private key (both PEM), and a stapled OCSP
// answer (DER) or nothing.
struct TlsIdentity {
  std::string chain;
  crypto::SecretText key;
  std::string ocsp;
};

struct TlsServerOptions {
  // A client is shown the first certificate that has the name that it asks for, else the first of all.
  std::vector<TlsIdentity> identities;
  std::vector<std::string> protocols = {"http/1.1"};  // for ALPN, the preferred first
  TlsVersion lowest = TlsVersion::tls13;
};

// One end's part. A TlsStream keeps it alive.
class TlsParty {
 public:
  virtual ~TlsParty() = default;
  TlsParty(const TlsParty&) = delete;
  TlsParty& operator=(const TlsParty&) = delete;

  const bio_method_st* carrier() const noexcept { return carrier_.get(); }

 protected:
  TlsParty();
  TlsOwned<bio_method_st> carrier_;  // null: no memory
};

class TlsServer final : public TlsParty {
 public:
  // The error is text for people and says which part is wrong.
  static std::expected<std::shared_ptr<const TlsServer>, std::string> make(
      const TlsServerOptions& options, std::shared_ptr<TlsTicketKeys> tickets);

  // Null: no memory. `shard` is the connection's.
  TlsOwned<ssl_st> open(Shard& shard) const noexcept;
  // When the first of its certificates ends.
  WallTime ends() const noexcept { return ends_; }

 private:
  friend struct TlsCallbacks;
  TlsServer() = default;
  std::expected<void, std::string> add(const TlsIdentity& identity, TlsVersion lowest);

  struct Shown {
    TlsOwned<ssl_ctx_st> context;
    std::string ocsp;
  };
  std::vector<Shown> shown_;
  WallTime ends_{std::numeric_limits<std::int64_t>::max()};
  std::string protocols_;  // as on the wire
  std::shared_ptr<TlsTicketKeys> tickets_;
  TlsOwned<evp_cipher_st> ticket_cipher_;
};

struct TlsClientOptions {
  std::string authorities;  // PEM; empty: those of the system
  std::vector<std::string> protocols = {"http/1.1"};
  TlsVersion lowest = TlsVersion::tls13;
};

class TlsClient final : public TlsParty {
 public:
  static std::expected<std::shared_ptr<const TlsClient>, std::string> make(const TlsClientOptions& options);

  // For a peer called `name`: a host name, or an address. Null: no memory, or no such name can be.
  TlsOwned<ssl_st> open(Shard& shard, const std::string& name) const noexcept;

 private:
  TlsClient() = default;
  TlsOwned<ssl_ctx_st> context_;
};

}  // namespace cairn::io
