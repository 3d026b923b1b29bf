#include "io/tls_context.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstring>

#include "io/tls_carrier.h"
#include "runtime/shard.h"

namespace cairn::io {

void TlsRelease::operator()(bio_method_st* method) const noexcept { BIO_meth_free(method); }
void TlsRelease::operator()(evp_cipher_st* cipher) const noexcept { EVP_CIPHER_free(cipher); }
void TlsRelease::operator()(ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }
void TlsRelease::operator()(ssl_st* connection) const noexcept { SSL_free(connection); }

TlsParty::TlsParty() : carrier_(make_tls_carrier()) {}

namespace {

using Outcome = std::expected<void, std::string>;

struct Free {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(OCSP_RESPONSE* answer) const noexcept { OCSP_RESPONSE_free(answer); }
};
template <class T>
using Freed = std::unique_ptr<T, Free>;

Freed<BIO> reader_of(std::string_view text) noexcept {
  return Freed<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// OpenSSL's own words for its last error, behind ours. Leaves no error behind.
std::unexpected<std::string> refuse(std::string what) {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return std::unexpected(reason != nullptr ? std::move(what) + " (" + reason + ")" : std::move(what));
}

// A key with a passphrase is refused: nobody is there to type it.
int no_passphrase(char*, int, int, void*) { return -1; }

TlsOwned<ssl_ctx_st> new_context(const SSL_METHOD* method, TlsVersion lowest) {
  TlsOwned<ssl_ctx_st> context(SSL_CTX_new(method));
  SSL_CTX* const made = context.get();
  if (made == nullptr) return context;
  SSL_CTX_set_options(made, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(made, 1);  // one read of the stream for all records that have arrived
  const bool ok =
      SSL_CTX_set_min_proto_version(made, lowest == TlsVersion::tls12 ? TLS1_2_VERSION : TLS1_3_VERSION) ==
          1 &&
      SSL_CTX_set_ciphersuites(
          made, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
      SSL_CTX_set_cipher_list(made, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
      SSL_CTX_set1_groups_list(made, "X25519:prime256v1:secp384r1") == 1;
  if (!ok) context.reset();
  return context;
}

Outcome use_chain(SSL_CTX* context, std::string_view pem) {
  const Freed<BIO> from = reader_of(pem);
  Freed<X509> leaf(from ? PEM_read_bio_X509(from.get(), nullptr, no_passphrase, nullptr) : nullptr);
  if (!leaf) return refuse("holds no certificate");
  if (SSL_CTX_use_certificate(context, leaf.get()) != 1) return refuse("the certificate cannot be used");
  for (;;) {
    const Freed<X509> next(PEM_read_bio_X509(from.get(), nullptr, no_passphrase, nullptr));
    if (!next) break;
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return refuse("the chain cannot be used");
  }
  // The end of the text is no error; anything else that is not a certificate is.
  const bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!whole) return refuse("the chain is damaged");
  ERR_clear_error();
  return {};
}

Outcome use_key(SSL_CTX* context, std::string_view pem) {
  const Freed<BIO> from = reader_of(pem);
  const Freed<EVP_PKEY> key(from ? PEM_read_bio_PrivateKey(from.get(), nullptr, no_passphrase, nullptr)
                                 : nullptr);
  if (!key) return refuse("holds no private key without a passphrase");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return refuse("the key does not belong to the certificate");
  return {};
}

WallTime end_of(const X509* certificate) noexcept {
  std::tm at{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &at) != 1) return {};
  return {static_cast<std::int64_t>(timegm(&at)) * 1000};
}

Outcome check_ocsp(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const Freed<OCSP_RESPONSE> answer(d2i_OCSP_RESPONSE(nullptr, &at, static_cast<long>(der.size())));
  if (!answer || OCSP_response_status(answer.get()) != OCSP_RESPONSE_STATUS_SUCCESSFUL)
    return refuse("is no OCSP answer (DER)");
  return {};
}

std::string wire_form(const std::vector<std::string>& protocols) {
  std::string out;
  for (const std::string& each : protocols) {
    CHECK(!each.empty() && each.size() < 256);
    out += static_cast<char>(each.size());
    out += each;
  }
  return out;
}

Shard& shard_of(SSL* connection) noexcept { return *static_cast<Shard*>(SSL_get_app_data(connection)); }

}  // namespace

// What OpenSSL asks a server during a handshake.
struct TlsCallbacks {
  static const TlsServer& server_of(SSL* connection) noexcept {
    return *static_cast<const TlsServer*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(connection)));
  }

  static int name_asked(SSL* connection, int*, void*) {
    const char* name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name);
    if (name == nullptr) return SSL_TLSEXT_ERR_NOACK;
    for (const TlsServer::Shown& each : server_of(connection).shown_) {
      X509* certificate = SSL_CTX_get0_certificate(each.context.get());
      if (X509_check_host(certificate, name, std::strlen(name), 0, nullptr) != 1) continue;
      SSL_set_SSL_CTX(connection, each.context.get());
      return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_NOACK;
  }

  static int choose_protocol(SSL* connection, const unsigned char** out, unsigned char* size,
                             const unsigned char* offered, unsigned offered_size, void*) {
    const std::string& ours = server_of(connection).protocols_;
    unsigned char* chosen = nullptr;
    const int found =
        SSL_select_next_proto(&chosen, size, reinterpret_cast<const unsigned char*>(ours.data()),
                              static_cast<unsigned>(ours.size()), offered, offered_size);
    *out = chosen;
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
  }

  static int staple(SSL* connection, void*) {
    for (const TlsServer::Shown& each : server_of(connection).shown_) {
      if (each.context.get() != SSL_get_SSL_CTX(connection)) continue;
      if (each.ocsp.empty()) return SSL_TLSEXT_ERR_NOACK;
      void* copy = OPENSSL_memdup(each.ocsp.data(), each.ocsp.size());
      if (copy == nullptr) return SSL_TLSEXT_ERR_NOACK;
      SSL_set_tlsext_status_ocsp_resp(connection, copy, static_cast<long>(each.ocsp.size()));
      return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_NOACK;
  }

  // Seals a ticket, or opens one. A ticket that was opened is renewed, because a client uses it only once.
  static int ticket(SSL* connection, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                    EVP_MAC_CTX* mac, int sealing) {
    const TlsServer& server = server_of(connection);
    const Instant now = shard_of(connection).now();
    auto key = sealing != 0 ? server.tickets_->sealing(now) : server.tickets_->opening(now, name);
    if (!key) return 0;
    constexpr int iv_size = 16;
    if (sealing != 0) {
      std::memcpy(name, key->name.data(), TlsTicketKey::name_size);
      if (RAND_bytes(iv, iv_size) != 1) return -1;
    }
    auto secret = [](std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); };
    char digest[] = "SHA256";
    const auto mac_key = key->mac.reveal_to_fill();
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, mac_key.data(), mac_key.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    const bool ready = EVP_CipherInit_ex2(cipher, server.ticket_cipher_.get(),
                                          secret(key->cipher.reveal_to_fill()), iv, sealing, nullptr) == 1 &&
                       EVP_MAC_CTX_set_params(mac, parameters) == 1;
    if (!ready) return -1;
    return sealing != 0 ? 1 : 2;
  }
};

Outcome TlsServer::add(const TlsIdentity& identity, TlsVersion lowest) {
  Shown shown{new_context(TLS_server_method(), lowest), identity.ocsp};
  SSL_CTX* const context = shown.context.get();
  if (context == nullptr) return refuse("OpenSSL makes no context");
  if (auto used = use_chain(context, identity.chain); !used) return used;
  if (auto used = use_key(context, identity.key.reveal()); !used) return used;
  if (!identity.ocsp.empty())
    if (auto checked = check_ocsp(identity.ocsp); !checked) return checked;
  SSL_CTX_set_app_data(context, this);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // sessions are in tickets only
  SSL_CTX_set_timeout(context, static_cast<long>(TlsTicketKeys::period.to_seconds()));
  SSL_CTX_set_num_tickets(context, 1);
  static constexpr unsigned char session_scope[] = {'c', 'a', 'i', 'r', 'n'};
  SSL_CTX_set_session_id_context(context, session_scope, sizeof session_scope);
  SSL_CTX_set_tlsext_servername_callback(context, &TlsCallbacks::name_asked);
  SSL_CTX_set_alpn_select_cb(context, &TlsCallbacks::choose_protocol, nullptr);
  SSL_CTX_set_tlsext_status_cb(context, &TlsCallbacks::staple);
  SSL_CTX_set_tlsext_ticket_key_evp_cb(context, &TlsCallbacks::ticket);
  ends_ = std::min(ends_, end_of(SSL_CTX_get0_certificate(context)));
  shown_.push_back(std::move(shown));
  return {};
}

std::expected<std::shared_ptr<const TlsServer>, std::string> TlsServer::make(
    const TlsServerOptions& options, std::shared_ptr<TlsTicketKeys> tickets) {
  CHECK(!options.identities.empty() && !options.protocols.empty() && tickets != nullptr);
  std::shared_ptr<TlsServer> server(new TlsServer);
  server->protocols_ = wire_form(options.protocols);
  server->tickets_ = std::move(tickets);
  server->ticket_cipher_.reset(EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr));
  if (!server->carrier_ || !server->ticket_cipher_) return refuse("OpenSSL is not ready");
  for (const TlsIdentity& each : options.identities)
    if (auto added = server->add(each, options.lowest); !added) return std::unexpected(added.error());
  return server;
}

TlsOwned<ssl_st> TlsServer::open(Shard& shard) const noexcept {
  TlsOwned<ssl_st> connection(SSL_new(shown_.front().context.get()));
  if (!connection) return connection;
  SSL_set_app_data(connection.get(), &shard);
  SSL_set_accept_state(connection.get());
  return connection;
}

namespace {

Outcome trust(SSL_CTX* context, const std::string& authorities) {
  if (authorities.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1) return refuse("the system's authorities");
    return {};
  }
  const Freed<BIO> from = reader_of(authorities);
  std::size_t count = 0;
  while (from) {
    const Freed<X509> next(PEM_read_bio_X509(from.get(), nullptr, no_passphrase, nullptr));
    if (!next) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), next.get()) != 1)
      return refuse("a certificate cannot be trusted");
    ++count;
  }
  if (count == 0) return refuse("holds no certificate");
  ERR_clear_error();
  return {};
}

}  // namespace

std::expected<std::shared_ptr<const TlsClient>, std::string> TlsClient::make(
    const TlsClientOptions& options) {
  std::shared_ptr<TlsClient> client(new TlsClient);
  client->context_ = new_context(TLS_client_method(), options.lowest);
  SSL_CTX* const context = client->context_.get();
  if (context == nullptr || !client->carrier_) return refuse("OpenSSL makes no context");
  if (auto trusted = trust(context, options.authorities); !trusted) return std::unexpected(trusted.error());
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  const std::string protocols = wire_form(options.protocols);
  // Zero is success here.
  if (!protocols.empty() &&
      SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(protocols.data()),
                              static_cast<unsigned>(protocols.size())) != 0)
    return refuse("the protocols");
  return client;
}

TlsOwned<ssl_st> TlsClient::open(Shard& shard, const std::string& name) const noexcept {
  TlsOwned<ssl_st> connection(SSL_new(context_.get()));
  if (!connection) return connection;
  SSL* const made = connection.get();
  SSL_set_app_data(made, &shard);
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(made);
  X509_VERIFY_PARAM_set_time(wanted, shard.wall().ms / 1000);
  SSL_set_hostflags(made, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool address = X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1;
  if (!address) ERR_clear_error();
  if (name.empty() || (!address && (SSL_set1_host(made, name.c_str()) != 1 ||
                                    SSL_set_tlsext_host_name(made, name.c_str()) != 1))) {
    ERR_clear_error();
    connection.reset();
    return connection;
  }
  SSL_set_connect_state(made);
  return connection;
}

}  // namespace cairn::io
