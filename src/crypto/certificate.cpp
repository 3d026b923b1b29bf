#include "crypto/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>
#include <string_view>

namespace cairn::crypto {
namespace {

struct Free {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(BIGNUM* number) const noexcept { BN_free(number); }
  void operator()(X509_EXTENSION* extension) const noexcept { X509_EXTENSION_free(extension); }
};
template <class T>
using Freed = std::unique_ptr<T, Free>;

// Leaves no error of OpenSSL's behind.
std::unexpected<Error> refuse(ErrorCode code, const char* what) {
  ERR_clear_error();
  return fail(code, what);
}

Freed<EVP_PKEY> make_key(CertificateKind kind) {
  return Freed<EVP_PKEY>(kind == CertificateKind::p256
                             ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "prime256v1")
                             : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Freed<BIO> reader_of(const std::string& text) {
  return Freed<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<Certified> write(X509* certificate, EVP_PKEY* key) {
  const Freed<BIO> shown(BIO_new(BIO_s_mem())), hidden(BIO_new(BIO_s_secmem()));
  if (!shown || !hidden || PEM_write_bio_X509(shown.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(hidden.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return refuse(ErrorCode::internal, "certificate");
  return Certified{text_of(shown.get()), text_of(hidden.get())};
}

bool add_extension(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Freed<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
  const Freed<BIGNUM> number(BN_new());
  return number && BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_times(X509* certificate, WallTime now, Duration lasts) {
  const std::time_t from = static_cast<std::time_t>(now.ms / 1000 - 24 * 3600);
  const auto to = from + static_cast<std::time_t>(lasts.to_seconds());
  return ASN1_TIME_set(X509_getm_notBefore(certificate), from) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), to) != nullptr;
}

bool set_name(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> bytes;
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

// Nothing that would be read as more than one name.
bool is_name(std::string_view name) {
  if (name.starts_with("*.")) name.remove_prefix(2);
  return !name.empty() && name.size() <= 253 && name.front() != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") ==
             name.npos;
}

Freed<X509> begin(EVP_PKEY* key, const std::string& name, WallTime now, Duration lasts) {
  constexpr long version_3 = 2;
  Freed<X509> made(X509_new());
  const bool ok = made && X509_set_version(made.get(), version_3) == 1 && set_serial(made.get()) &&
                  set_times(made.get(), now, lasts) && set_name(made.get(), name) &&
                  X509_set_pubkey(made.get(), key) == 1;
  if (!ok) made.reset();
  return made;
}

bool sign(X509* certificate, EVP_PKEY* key) {
  // Ed25519 has a digest of its own.
  return X509_sign(certificate, key, EVP_PKEY_is_a(key, "ED25519") == 1 ? nullptr : EVP_sha256()) > 0;
}

}  // namespace

Result<Certified> make_authority(const std::string& name, WallTime now, Duration lasts,
                                 CertificateKind kind) {
  const Freed<EVP_PKEY> key = make_key(kind);
  if (!key) return refuse(ErrorCode::internal, "certificate's key");
  const Freed<X509> made = begin(key.get(), name, now, lasts);
  if (!made || X509_set_issuer_name(made.get(), X509_get_subject_name(made.get())) != 1 ||
      !add_extension(made.get(), made.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(made.get(), made.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(made.get(), made.get(), NID_subject_key_identifier, "hash") ||
      !sign(made.get(), key.get()))
    return refuse(ErrorCode::internal, "authority");
  return write(made.get(), key.get());
}

Result<Certified> issue_certificate(const Certified& authority, const std::vector<std::string>& names,
                                    WallTime now, Duration lasts, CertificateKind kind) {
  const Freed<BIO> issuer_text = reader_of(authority.certificate),
                   issuer_key_text = reader_of(authority.key.reveal());
  const Freed<X509> issuer(PEM_read_bio_X509(issuer_text.get(), nullptr, nullptr, nullptr));
  const Freed<EVP_PKEY> issuer_key(PEM_read_bio_PrivateKey(issuer_key_text.get(), nullptr, nullptr, nullptr));
  if (!issuer || !issuer_key || X509_check_private_key(issuer.get(), issuer_key.get()) != 1)
    return refuse(ErrorCode::invalid, "the authority is not a certificate and its key");
  std::string vouched;
  for (const std::string& each : names) {
    if (!is_address(each) && !is_name(each))
      return refuse(ErrorCode::invalid, "a name that no host can have");
    vouched += (vouched.empty() ? "" : ",") + std::string(is_address(each) ? "IP:" : "DNS:") + each;
  }
  if (names.empty()) return refuse(ErrorCode::invalid, "a certificate needs a name");
  const Freed<EVP_PKEY> key = make_key(kind);
  if (!key) return refuse(ErrorCode::internal, "certificate's key");
  const Freed<X509> made = begin(key.get(), names.front().substr(0, 64), now, lasts);
  if (!made || X509_set_issuer_name(made.get(), X509_get_subject_name(issuer.get())) != 1 ||
      !add_extension(made.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(made.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(made.get(), issuer.get(), NID_ext_key_usage, "serverAuth") ||
      !add_extension(made.get(), issuer.get(), NID_subject_alt_name, vouched) ||
      !add_extension(made.get(), issuer.get(), NID_subject_key_identifier, "hash") ||
      !add_extension(made.get(), issuer.get(), NID_authority_key_identifier, "keyid:always") ||
      !sign(made.get(), issuer_key.get()))
    return refuse(ErrorCode::internal, "certificate");
  return write(made.get(), key.get());
}

bool is_issued_by(const std::string& authority, const std::string& certificate) noexcept {
  const Freed<BIO> issuer_text = reader_of(authority), text = reader_of(certificate);
  const Freed<X509> issuer(PEM_read_bio_X509(issuer_text.get(), nullptr, nullptr, nullptr)),
      shown(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  EVP_PKEY* const key = issuer ? X509_get0_pubkey(issuer.get()) : nullptr;
  const bool is_issued = key != nullptr && shown && X509_verify(shown.get(), key) == 1;
  ERR_clear_error();
  return is_issued;
}

}  // namespace cairn::crypto
