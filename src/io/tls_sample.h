// For tests: an authority and what it vouches for. Ed25519, so that every handshake has the same lengths.
#pragma once

#include <string>
#include <vector>

#include "crypto/certificate.h"
#include "io/tls_context.h"

namespace cairn::io {

struct SampleAuthority {
  explicit SampleAuthority(WallTime from, crypto::CertificateKind of = crypto::CertificateKind::ed25519)
      : now(from), kind(of), authority(*crypto::make_authority("tests", now, lasts, kind)) {}

  TlsIdentity identity(const std::vector<std::string>& names) const { return identity(names, lasts); }
  TlsIdentity identity(const std::vector<std::string>& names, Duration of) const {
    crypto::Certified made = *crypto::issue_certificate(authority, names, now, of, kind);
    return {std::move(made.certificate), std::move(made.key), {}};
  }
  std::shared_ptr<const TlsServer> server(TlsServerOptions options) const {
    auto made = TlsServer::make(options, std::make_shared<TlsTicketKeys>());
    CHECK(made.has_value());
    return *made;
  }
  std::shared_ptr<const TlsServer> server() const { return server({.identities = {identity({"server"})}}); }
  std::shared_ptr<const TlsClient> client(std::vector<std::string> protocols = {"http/1.1"}) const {
    auto made = TlsClient::make({.authorities = authority.certificate, .protocols = std::move(protocols)});
    CHECK(made.has_value());
    return *made;
  }

  static constexpr Duration lasts = Duration::seconds(30 * 24 * 3600);
  WallTime now;
  crypto::CertificateKind kind;
  crypto::Certified authority;
};

}  // namespace cairn::io
