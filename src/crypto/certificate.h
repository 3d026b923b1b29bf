// Certificates of one's own: an authority and what it vouches for (X.509, RFC 5280), for trying things out
// and for tests. PEM, as OpenSSL writes it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "crypto/secret_bytes.h"

namespace cairn::crypto {

// p256: what every browser accepts. ed25519: signatures of a fixed length, for simulations.
enum class CertificateKind : std::uint8_t { p256, ed25519 };

struct Certified {
  std::string certificate;
  SecretText key;
};

// An authority that vouches for servers and for no other authority. `lasts` from a day before `now`, because
// clocks differ.
Result<Certified> make_authority(const std::string& name, WallTime now, Duration lasts,
                                 CertificateKind kind = CertificateKind::p256);
// A server's certificate. Each name is a host name, a wildcard (`*.example.com`) or an address; there is at
// least one. `invalid`: the authority's texts are not a certificate and its key, or there is no such name.
Result<Certified> issue_certificate(const Certified& authority, const std::vector<std::string>& names,
                                    WallTime now, Duration lasts,
                                    CertificateKind kind = CertificateKind::p256);
// Whether this authority has signed the certificate. PEM; false, too, if one of them is none.
bool is_issued_by(const std::string& authority, const std::string& certificate) noexcept;

}  // namespace cairn::crypto
