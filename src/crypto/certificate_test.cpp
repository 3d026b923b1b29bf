#include "crypto/certificate.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

namespace cairn::crypto {
namespace {

constexpr WallTime now{1'767'225'600'000};
constexpr Duration month = Duration::seconds(30 * 24 * 3600);

struct Free {
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509_STORE* store) const noexcept { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const noexcept { X509_STORE_CTX_free(context); }
};

std::unique_ptr<X509, Free> parse(const std::string& pem) {
  const std::unique_ptr<BIO, Free> from(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return std::unique_ptr<X509, Free>(PEM_read_bio_X509(from.get(), nullptr, nullptr, nullptr));
}

// OpenSSL's verdict about a server's certificate at that time.
int verify(const std::string& authority, const std::string& certificate, WallTime at) {
  const auto trusted = parse(authority), shown = parse(certificate);
  const std::unique_ptr<X509_STORE, Free> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), trusted.get());
  const std::unique_ptr<X509_STORE_CTX, Free> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), shown.get(), nullptr);
  X509_STORE_CTX_set_time(context.get(), 0, at.ms / 1000);
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_SERVER);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

TEST(Certificate, an_authority_vouches_for_its_servers_and_for_no_others) {
  for (const auto kind : {CertificateKind::p256, CertificateKind::ed25519}) {
    const auto authority = make_authority("one", now, month, kind),
               other = make_authority("one", now, month, kind);
    ASSERT_TRUE(authority && other);
    const auto server = issue_certificate(*authority, {"a.example"}, now, month, kind);
    ASSERT_TRUE(server);
    EXPECT_EQ(verify(authority->certificate, server->certificate, now), X509_V_OK);
    EXPECT_NE(verify(other->certificate, server->certificate, now), X509_V_OK);
    // What a server was given vouches for nobody.
    const auto below = issue_certificate(*server, {"b.example"}, now, month, kind);
    ASSERT_TRUE(below);
    EXPECT_NE(verify(authority->certificate, below->certificate, now), X509_V_OK);
  }
}

TEST(Certificate, who_has_signed_it_is_known) {
  const auto ours = make_authority("the same name", now, month),
             other = make_authority("the same name", now, month);
  ASSERT_TRUE(ours && other);
  const auto made = issue_certificate(*ours, {"localhost"}, now, month);
  ASSERT_TRUE(made);
  EXPECT_TRUE(is_issued_by(ours->certificate, made->certificate));
  EXPECT_FALSE(is_issued_by(other->certificate, made->certificate));
  EXPECT_FALSE(is_issued_by("none", made->certificate));
  EXPECT_FALSE(is_issued_by(ours->certificate, "none"));
}

TEST(Certificate, it_is_good_from_the_day_before_for_its_time) {
  const auto authority = make_authority("one", now, month * 10);
  const auto server = issue_certificate(*authority, {"a.example"}, now, month);
  const auto at = [](std::int64_t hours) { return WallTime{now.ms + hours * 3'600'000}; };
  EXPECT_EQ(verify(authority->certificate, server->certificate, at(-23)), X509_V_OK);
  EXPECT_EQ(verify(authority->certificate, server->certificate, at(-25)), X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_EQ(verify(authority->certificate, server->certificate, at(28 * 24)), X509_V_OK);
  EXPECT_EQ(verify(authority->certificate, server->certificate, at(30 * 24)), X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST(Certificate, it_has_all_of_its_names_and_no_more) {
  const auto authority = make_authority("one", now, month);
  const auto server =
      issue_certificate(*authority, {"a.example", "*.b.example", "127.0.0.1", "::1"}, now, month);
  ASSERT_TRUE(server);
  const auto shown = parse(server->certificate);
  for (const char* name : {"a.example", "x.b.example"})
    EXPECT_EQ(X509_check_host(shown.get(), name, 0, 0, nullptr), 1) << name;
  for (const char* name : {"b.example", "c.example", "x.a.example"})
    EXPECT_EQ(X509_check_host(shown.get(), name, 0, 0, nullptr), 0) << name;
  for (const char* address : {"127.0.0.1", "::1"})
    EXPECT_EQ(X509_check_ip_asc(shown.get(), address, 0), 1) << address;
  EXPECT_EQ(X509_check_ip_asc(shown.get(), "127.0.0.2", 0), 0);
}

TEST(Certificate, names_that_no_host_can_have_are_refused) {
  const auto authority = make_authority("one", now, month);
  for (const char* name :
       {"", "a b", "a,DNS:b", "a.example,IP:127.0.0.1", "*", "*.", ".a", "a/b", "a\nb", "\xc3\xa4"})
    EXPECT_FALSE(issue_certificate(*authority, {"good.example", name}, now, month)) << name;
  EXPECT_FALSE(issue_certificate(*authority, {}, now, month));
}

TEST(Certificate, an_authority_without_its_own_key_vouches_for_nothing) {
  const auto one = make_authority("one", now, month), two = make_authority("two", now, month);
  EXPECT_EQ(issue_certificate({one->certificate, two->key}, {"a"}, now, month).error().code,
            ErrorCode::invalid);
  EXPECT_EQ(issue_certificate({"", std::string()}, {"a"}, now, month).error().code, ErrorCode::invalid);
}

}  // namespace
}  // namespace cairn::crypto
