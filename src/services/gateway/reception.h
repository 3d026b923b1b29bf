// Reception: admits the requests of one shard for their tenants, and charges them what they cost.
//   [GR-1] A token that is seen is genuine, or its request is refused (401) before it costs anything. Without
//         keys tokens pass unread, and the tenant is the address's. So it is with a token that has
//         expired, or is not for this peer: whoever is behind refuses it where one is needed.
//   [GR-2] A request costs a unit, and one for each 64 KiB of its body and of the answer that is expected: at
//         most 64. What it uses beyond that is charged as it goes; a body that is not sent, as for HEAD or
//         304, costs nothing.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "serve/authorizer.h"
#include "serve/service.h"
#include "serve/tenancy.h"
#include "services/gateway/fairness.h"

namespace cairn::gateway {

class Reception final : public serve::Tenancy {
 public:
  // The context's references outlive it.
  Reception(Fairness& fairness, const serve::ShardContext& context);

  void take_keys(const serve::KeySnapshotPtr& keys);
  // Whether the bearer may administer the gateway; else why not.
  Result<> check_admin(const serve::Request& request);

  Verdict admit(serve::Request& request, const serve::RouteSpec* spec) override;
  void leave(serve::Request& request) noexcept override;
  Seeking seek(serve::Request& request) override;
  void answering(serve::Request& request) override;
  void finished(const serve::Request& request, bool complete) noexcept override;

  static constexpr std::uint64_t unit = 65'536;

 private:
  class Metered;
  class MeteredTalk;
  static Tenant& tenant_of(const serve::Request& request) noexcept {
    return *static_cast<Tenant*>(request.tenant.get());
  }
  Result<TenantPtr> find_tenant(const serve::Request& request);
  crypto::CapabilityRequest who_asks(const serve::Request& request) const noexcept;
  Verdict admit_to_limits(serve::Request& request, Tenant& tenant, Kind kind);
  Verdict admit_to_quota(serve::Request& request, Tenant& tenant);
  std::uint64_t expected_answer(const serve::Request& request) const noexcept;
  std::uint32_t cost_of(const serve::Request& request) const noexcept;
  void learn(std::size_t route, std::uint64_t bytes) noexcept;
  void count_whole(Tenant& tenant, std::uint64_t bytes, std::uint64_t paid) noexcept;

  Fairness& fairness_;
  serve::Admission& admission_;
  Shard& shard_;
  observe::Slot slot_;
  std::unique_ptr<serve::Authorizer> authorizer_;  // none: no keys
  // Tenants that asked lately, by hash.
  struct Recent {
    std::array<std::uint64_t, 2> network{};
    TenantPtr tenant;
  };
  std::array<Recent, 256> recent_;
  std::vector<std::uint64_t> answers_;  // by route: the bytes of an answer, lately
};

}  // namespace cairn::gateway
