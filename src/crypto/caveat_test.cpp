#include "crypto/caveat.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace cairn::crypto {
namespace {

constexpr std::array<std::uint8_t, 16> v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}
constexpr std::array<std::uint8_t, 16> v6_example = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0,
                                                     0,    0,    0,    0,    0, 0, 0, 9};
const std::string hex_a(64, 'a');
const std::string hex_b(64, 'b');

// A request that has everything.
CapabilityRequest full_request() {
  return {.op = "storage.put",
          .service = "storage",
          .tenant = "home",
          .address = parse_address("b3:" + hex_a),
          .name = "maps/europe",
          .now = parse_rfc3339("2026-01-31T12:00:00Z").value(),
          .bytes = 1000,
          .ip = v4(10, 1, 2, 3)};
}

bool all_allowed(const std::vector<std::string>& caveats, const CapabilityRequest& request) {
  Macaroon macaroon;
  for (const std::string& caveat : caveats) macaroon.caveats.push_back({caveat});
  auto checked = check_caveats(macaroon, request);
  EXPECT_TRUE(checked || checked.error().code == ErrorCode::forbidden);
  return checked.has_value();
}
bool allowed(const std::string& caveat, const CapabilityRequest& request = full_request()) {
  return all_allowed({caveat}, request);
}

TEST(Caveat, without_caveats_everything_is_allowed) {
  EXPECT_TRUE(all_allowed({}, full_request()));
  EXPECT_TRUE(all_allowed({}, CapabilityRequest{}));
}

TEST(Caveat, op_is_a_set_and_several_intersect) {
  EXPECT_TRUE(allowed("op = storage.put"));
  EXPECT_TRUE(allowed("op = storage.get storage.put"));
  EXPECT_FALSE(allowed("op = storage.get"));
  EXPECT_FALSE(allowed("op = storage.putt"));
  EXPECT_FALSE(allowed("op = storage.pu"));
  EXPECT_TRUE(all_allowed({"op = storage.get storage.put", "op = storage.put storage.pin"}, full_request()));
  EXPECT_FALSE(all_allowed({"op = storage.get storage.put", "op = storage.get"}, full_request()));
  EXPECT_FALSE(all_allowed({"op = storage.put", "op = storage.get"}, full_request()));
}

TEST(Caveat, operation_of_a_newer_version_does_not_spoil_the_set) {
  EXPECT_TRUE(allowed("op = storage.put storage.teleport"));
  EXPECT_FALSE(allowed("op = storage.teleport"));
}

TEST(Caveat, svc_is_a_set) {
  EXPECT_TRUE(allowed("svc = storage"));
  EXPECT_TRUE(allowed("svc = index storage"));
  EXPECT_FALSE(allowed("svc = index"));
  EXPECT_FALSE(all_allowed({"svc = index storage", "svc = index"}, full_request()));
}

TEST(Caveat, tenant_is_one) {
  EXPECT_TRUE(allowed("tenant = home"));
  EXPECT_FALSE(allowed("tenant = Home"));
  EXPECT_FALSE(allowed("tenant = work"));
  EXPECT_FALSE(all_allowed({"tenant = home", "tenant = work"}, full_request()));
}

TEST(Caveat, addr_is_one_in_either_case_of_hex) {
  EXPECT_TRUE(allowed("addr = b3:" + hex_a));
  EXPECT_TRUE(allowed("addr = b3:" + std::string(64, 'A')));
  EXPECT_FALSE(allowed("addr = b3:" + hex_b));
}

TEST(Caveat, name_is_a_prefix_of_whole_segments) {
  EXPECT_TRUE(allowed("name ^ maps/"));
  EXPECT_FALSE(allowed("name ^ map/"));
  EXPECT_FALSE(allowed("name ^ maps/europe/"));
  EXPECT_FALSE(allowed("name ^ maps"));
}

TEST(Caveat, expiry_is_refused_at_the_very_millisecond) {
  CapabilityRequest request = full_request();
  const std::string caveat = "expires < 2026-01-31T12:00:00.500Z";
  request.now = parse_rfc3339("2026-01-31T12:00:00.499Z").value();
  EXPECT_TRUE(allowed(caveat, request));
  request.now.ms += 1;
  EXPECT_FALSE(allowed(caveat, request));
  request.now.ms += 1;
  EXPECT_FALSE(allowed(caveat, request));
  EXPECT_TRUE(allowed("expires < 2026-01-31T14:00:01+01:00", request));
  EXPECT_FALSE(allowed("expires < 2026-01-31T13:00:00+01:00", request));
}

TEST(Caveat, max_bytes_is_inclusive) {
  EXPECT_TRUE(allowed("max_bytes <= 1000"));
  EXPECT_FALSE(allowed("max_bytes <= 999"));
  EXPECT_TRUE(allowed("max_bytes <= 18446744073709551615"));
  CapabilityRequest reads = full_request();
  reads.bytes = 0;
  EXPECT_TRUE(allowed("max_bytes <= 0", reads));
}

TEST(Caveat, ip_is_a_network_of_either_family) {
  EXPECT_TRUE(allowed("ip = 10.0.0.0/8"));
  EXPECT_TRUE(allowed("ip = 10.1.2.3/32"));
  EXPECT_TRUE(allowed("ip = 10.1.2.2/31"));
  EXPECT_FALSE(allowed("ip = 10.1.2.4/30"));
  EXPECT_FALSE(allowed("ip = 192.168.0.0/16"));
  EXPECT_TRUE(allowed("ip = 0.0.0.0/0"));
  EXPECT_TRUE(allowed("ip = ::ffff:10.0.0.0/104"));
  EXPECT_FALSE(allowed("ip = 2001:db8::/32"));
  CapabilityRequest request = full_request();
  request.ip = v6_example;
  EXPECT_TRUE(allowed("ip = 2001:db8::/32", request));
  EXPECT_TRUE(allowed("ip = 2001:db8::9/128", request));
  EXPECT_TRUE(allowed("ip = ::/0", request));
  EXPECT_FALSE(allowed("ip = 2001:db8::8/128", request));
  EXPECT_FALSE(allowed("ip = 2001:db9::/32", request));
  EXPECT_FALSE(allowed("ip = 0.0.0.0/0", request));
}

TEST(Caveat, peer_on_a_unix_socket_counts_as_loopback) {
  CapabilityRequest request = full_request();
  request.ip.reset();
  request.local = true;
  EXPECT_TRUE(allowed("ip = 127.0.0.0/8", request));
  EXPECT_TRUE(allowed("ip = ::1/128", request));
  EXPECT_FALSE(allowed("ip = 10.0.0.0/8", request));
  request.local = false;
  EXPECT_FALSE(allowed("ip = 127.0.0.0/8", request));
}

TEST(Caveat, request_without_what_the_caveat_is_about_is_refused) {
  const CapabilityRequest bare{.op = "storage.list", .service = "storage"};
  for (const std::string& caveat :
       {"addr = b3:" + hex_a, std::string("name ^ maps/"), std::string("tenant = home"),
        std::string("max_bytes <= 5"), std::string("ip = 0.0.0.0/0"), std::string("ip = ::/0")})
    EXPECT_FALSE(allowed(caveat, bare)) << caveat;
}

// Each is refused by check_caveats whatever the request, and told by validate_caveat.
const std::string malformed_caveats[] = {"",
                                         " ",
                                         "op",
                                         "op =",
                                         "op = ",
                                         "op=storage.put",
                                         "op =  storage.put",
                                         "op = storage.put ",
                                         " op = storage.put",
                                         "op = storage.get  storage.put",
                                         "op = storage.put,storage.get",
                                         "OP = storage.put",
                                         "op = storage.put\n",
                                         std::string("op = storage.put\0", 17),
                                         "op < storage.put",
                                         "svc = ",
                                         "svc =\tstorage",
                                         "tenant = ",
                                         "tenant = home work",
                                         "tenant = h\xc3\xb6me",
                                         "tenant = " + std::string(65, 'a'),
                                         "addr = ",
                                         "addr = b3:" + hex_a + "a",
                                         "addr = b3:" + hex_a.substr(1),
                                         "addr = " + hex_a,
                                         "addr ^ b3:" + hex_a,
                                         "name ^ ",
                                         "name ^ maps",
                                         "name = maps/",
                                         std::string("name ^ ma\0ps/", 13),
                                         "name ^ \xff/",
                                         "name ^ a\n/",
                                         "expires < ",
                                         "expires < tomorrow",
                                         "expires < 2027-01-31",
                                         "expires < 2027-02-30T12:00:00Z",
                                         "expires < 2027-01-31T12:00:00",
                                         "expires <= 2027-01-31T12:00:00Z",
                                         "expires < 2027-01-31T12:00:00Z ",
                                         "max_bytes <= ",
                                         "max_bytes <= -1",
                                         "max_bytes <= +2000",
                                         "max_bytes <= 02000",
                                         "max_bytes <= 2e9",
                                         "max_bytes <= 2000 ",
                                         "max_bytes <= 2MiB",
                                         "max_bytes <= 18446744073709551616",
                                         "max_bytes < 2000",
                                         "ip = ",
                                         "ip = 10.1.2.3",
                                         "ip = 10.0.0.0/",
                                         "ip = 10.0.0.0/33",
                                         "ip = 10.0.0.0/-8",
                                         "ip = 10.0.0.0/08",
                                         "ip = 10.0.0.0/256",
                                         "ip = 10.0.0.1/8",
                                         "ip = 10.0.0/8",
                                         "ip = 010.0.0.0/8",
                                         "ip = /8",
                                         "ip = ::/129",
                                         "ip = 2001:db8::1/32",
                                         "ip = 10.0.0.0/8 ",
                                         std::string("ip = 10.0.0.0\0/8", 16),
                                         "ip = 10.0.0.0/8/8",
                                         "ip = 0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/0",
                                         "colour = red",
                                         "time < 2027-01-31T12:00:00Z"};

TEST(Caveat, unknown_or_malformed_is_refused) {
  for (const std::string& caveat : malformed_caveats) EXPECT_FALSE(allowed(caveat)) << caveat;
}

TEST(Caveat, third_party_is_refused_whatever_it_says) {
  Macaroon macaroon;
  macaroon.caveats.push_back({"op = storage.put", "https://other.example", "vid"});
  auto checked = check_caveats(macaroon, full_request());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::forbidden);
}

TEST(Caveat, validation_says_what_is_wrong) {
  for (const std::string& caveat : malformed_caveats) {
    auto valid = validate_caveat(caveat);
    ASSERT_FALSE(valid) << caveat;
    EXPECT_EQ(valid.error().code, ErrorCode::malformed);
  }
  EXPECT_STREQ(validate_caveat("name ^ maps").error().context, "name: the prefix must end with `/`");
  EXPECT_STREQ(validate_caveat("ip = 10.0.0.1/8").error().context,
               "ip: the address has bits set beyond its prefix length");
  EXPECT_STREQ(validate_caveat("op = storage.teleport").error().context, "op: there is no such operation");
  EXPECT_STREQ(validate_caveat("svc = storag").error().context, "svc: there is no such service");
  EXPECT_TRUE(
      std::string_view(validate_caveat("colour = red").error().context).starts_with("unknown caveat"));
}

TEST(Caveat, built_caveats_are_valid) {
  const std::string built[] = {
      op_caveat(known_operations()), svc_caveat(known_services()), tenant_caveat("home"),
      addr_caveat(Address{}),        name_caveat("maps/"),         expires_caveat({1'769'860'800'500}),
      max_bytes_caveat(1'048'576),   ip_caveat("10.0.0.0/8"),      ip_caveat("2001:db8::/32")};
  for (const std::string& caveat : built) EXPECT_TRUE(validate_caveat(caveat)) << caveat;
  EXPECT_EQ(built[1], "svc = storage index registry edge gateway");
  EXPECT_EQ(built[5], "expires < 2026-01-31T12:00:00.500Z");
  EXPECT_EQ(built[6], "max_bytes <= 1048576");
}

TEST(Caveat, tenant_of_a_token_is_found) {
  Macaroon macaroon;
  EXPECT_FALSE(find_tenant(macaroon));
  macaroon.caveats = {{"op = storage.get"}, {"tenant = home"}};
  EXPECT_EQ(find_tenant(macaroon), "home");
  macaroon.caveats.push_back({"tenant = home"});
  EXPECT_EQ(find_tenant(macaroon), "home");
  macaroon.caveats.push_back({"tenant = work"});
  EXPECT_FALSE(find_tenant(macaroon)) << "no request is of both";
  for (const std::string& caveat : malformed_caveats) {
    macaroon.caveats = {{caveat}};
    EXPECT_FALSE(find_tenant(macaroon)) << caveat;
  }
  macaroon.caveats = {{"tenant = home", "elsewhere", "vid"}};
  EXPECT_FALSE(find_tenant(macaroon)) << "a third party's";
}

TEST(Caveat, who_asks_is_judged_before_what_is_asked_for) {
  CapabilityRequest who{.tenant = "home", .now = full_request().now, .ip = full_request().ip};
  const auto judged = [&](const std::vector<std::string>& caveats) {
    Macaroon macaroon;
    for (const std::string& caveat : caveats) macaroon.caveats.push_back({caveat});
    return check_bearer(macaroon, who).has_value();
  };
  EXPECT_TRUE(judged({"op = storage.get", "svc = index", "name ^ maps/", "max_bytes <= 1", "tenant = home",
                      "ip = ::/0", "expires < 9999-01-01T00:00:00Z"}));
  EXPECT_FALSE(judged({"tenant = work"}));
  EXPECT_FALSE(judged({"ip = 192.0.2.1/32"}));
  EXPECT_FALSE(judged({"expires < 1970-01-02T00:00:00Z"}));
  EXPECT_FALSE(judged({"colour = red"}));
  for (const std::string& caveat : malformed_caveats) EXPECT_FALSE(judged({caveat})) << caveat;
}

rc::Gen<std::string> any_caveat() {
  // Weighted towards what allows, else long lists are always refused.
  return rc::gen::weightedOneOf<std::string>(
      {{12, rc::gen::element<std::string>(
                "op = storage.get storage.put", "op = storage.put index.read storage.get",
                "svc = storage index", "tenant = home", "addr = b3:" + hex_a, "name ^ maps/",
                "expires < 2026-01-31T12:00:01Z", "max_bytes <= 1000", "ip = 10.0.0.0/8", "ip = ::/0")},
       {2, rc::gen::element<std::string>(
               "op = storage.get", "svc = index", "tenant = work", "addr = b3:" + hex_b, "name ^ maps/asia/",
               "expires < 2026-01-31T12:00:00Z", "max_bytes <= 10", "ip = 192.168.0.0/16", "colour = red")},
       {1, rc::gen::element(malformed_caveats[2], malformed_caveats[4], malformed_caveats[7])},
       {1, rc::gen::arbitrary<std::string>()}});
}

CapabilityRequest any_request() {
  CapabilityRequest request = full_request();
  request.op = *rc::gen::element<std::string_view>("storage.put", "storage.get", "index.read");
  request.service = *rc::gen::weightedElement<std::string_view>({{3, "storage"}, {1, "index"}});
  request.tenant = *rc::gen::weightedElement<std::string_view>({{3, "home"}, {1, "work"}, {1, ""}});
  if (*rc::gen::inRange(0, 4) == 0) request.address.reset();
  request.name = *rc::gen::weightedElement<std::string_view>({{3, "maps/asia/x"}, {1, "mapsx"}, {1, ""}});
  request.now.ms += *rc::gen::inRange(-1500, 1500);
  if (*rc::gen::inRange(0, 4) == 0) request.bytes.reset();
  if (*rc::gen::inRange(0, 4) == 0) request.ip = v6_example;
  return request;
}

RC_GTEST_PROP(Caveat, one_more_caveat_never_allows_more, ()) {
  auto caveats = *rc::gen::resize(6, rc::gen::container<std::vector<std::string>>(any_caveat()));
  const CapabilityRequest request = any_request();
  const bool before = all_allowed(caveats, request);
  const auto at = *rc::gen::inRange<std::size_t>(0, caveats.size() + 1);
  const std::string added = *any_caveat();
  caveats.insert(caveats.begin() + static_cast<std::ptrdiff_t>(at), added);
  const bool after = all_allowed(caveats, request);
  RC_ASSERT(!after || before);
  // All must hold: the whole is allowed exactly when the rest and the added one each are.
  RC_ASSERT(after == (before && allowed(added, request)));
  RC_CLASSIFY(after, "allowed");
}

}  // namespace
}  // namespace cairn::crypto
