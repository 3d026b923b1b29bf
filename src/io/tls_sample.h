// For tests: an authority and what it vouches for, Ed25519, so that every handshake has the same lengths; and
// the other end as OpenSSL has it, without a stream around it.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string>
#include <string_view>
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

// A client whose bytes the test carries, and that sends what no stream of ours would. It trusts everybody.
class BareTlsClient {
 public:
  explicit BareTlsClient(int version = TLS1_3_VERSION) : context_(SSL_CTX_new(TLS_client_method())) {
    CHECK(context_ != nullptr && SSL_CTX_set_max_proto_version(context_.get(), version) == 1);
    connection_.reset(SSL_new(context_.get()));
    CHECK(connection_ != nullptr);
    SSL_set_bio(raw(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(raw()), -1);
    SSL_set_connect_state(raw());
  }
  SSL* raw() const noexcept { return connection_.get(); }

  // Bytes of the server have arrived.
  void take(std::string_view bytes) {
    CHECK(BIO_write(SSL_get_rbio(raw()), bytes.data(), static_cast<int>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  }
  // What it has to send by now.
  std::string give() {
    std::string bytes(BIO_ctrl_pending(SSL_get_wbio(raw())), ' ');
    if (!bytes.empty()) BIO_read(SSL_get_wbio(raw()), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  // As far as the handshake goes; true when it is done.
  bool shake() { return SSL_do_handshake(raw()) == 1; }
  void update_key(bool both = false) {
    CHECK(SSL_key_update(raw(), both ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
    CHECK(SSL_do_handshake(raw()) == 1);
  }
  void write(std::string_view text) {
    CHECK(SSL_write(raw(), text.data(), static_cast<int>(text.size())) == static_cast<int>(text.size()));
  }
  // What has arrived as data.
  std::string read() {
    std::string all;
    char piece[4096];
    for (int got = 0; (got = SSL_read(raw(), piece, sizeof piece)) > 0;)
      all.append(piece, static_cast<std::size_t>(got));
    return all;
  }

 private:
  TlsOwned<ssl_ctx_st> context_;
  TlsOwned<ssl_st> connection_;
};

}  // namespace cairn::io
