// GatewayShard: the gateway on one shard. Internal to the service.
#pragma once

#include <array>
#include <span>

#include "serve/service.h"
#include "services/gateway/declarations.h"
#include "services/gateway/history.h"
#include "services/gateway/passing.h"
#include "services/gateway/quota_file.h"
#include "services/gateway/reception.h"
#include "services/gateway/request_source.h"
#include "services/gateway/upstream.h"
#include "services/gateway/way.h"

namespace cairn::gateway {

// The state that the shards share.
struct Shared {
  Keys keys;
  Fairness fairness;
  Metrics metrics = {};
  Samples samples = {};
  std::unique_ptr<ShutWays> shut = {};  // made on the first shard, before the others
};

class GatewayShard final : public serve::ServiceShard {
 public:
  GatewayShard(Shared& shared, serve::ShardContext context);

  Task<Result<>> start(Call call) override;
  Task<> stop(Call call) override;
  void apply(const config::Snapshot& snapshot) override;
  void take_keys(const serve::KeySnapshotPtr& keys) override { reception_.take_keys(keys); }
  Turnstile* turnstile() override { return turns_.get(); }
  serve::Tenancy* tenancy() override { return &reception_; }

  static std::span<const serve::RouteSpec> routes();

 private:
  // Passes the request on, and the answer back (forward.cpp). Cancel: partial — the upstream may have seen
  // the request.
  template <Upstream upstream>
  Task<Result<>> pass(Call call, serve::Request& request) {
    return forward(call, request, upstream);
  }
  // The same for a read whose upstream is in this process, and has the answer in memory: it needs no wait.
  // False: the route's other handler goes on with what has begun.
  template <Upstream upstream>
  Result<bool> try_pass(serve::Request& request) {
    return try_forward(request, upstream);
  }
  // The same as pass() for what may be the address of an object.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its handler
  Task<Result<>> pass_object(Call call, serve::Request& request);
  // The same for a route that stays open: only a request that says how long it waits, or a stream, may take
  // longer than others.
  template <Upstream upstream>
  Task<Result<>> pass_open(Call call, serve::Request& request) {
    if (may_last(request)) return forward(call, request, upstream, Lasting::yes);
    return forward(call.by(request.started() + context_.settings.request_timeout), request, upstream);
  }
  static bool may_last(const serve::Request& request) noexcept;
  bool leave(serve::Request&) { return false; }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its handler
  Task<Result<>> forward(Call call, serve::Request& request, Upstream upstream,
                         Lasting lasting = Lasting::no);
  Result<bool> try_forward(serve::Request& request, Upstream upstream);
  // --- of the first shard
  Task<> probe(Call call);
  Task<> keep_quotas(Call call);
  Task<> save_quotas(Call call);
  Task<> load_quotas(Call call);
  void sample();
  void show_gates();
  Result<> tell_tenants(serve::Request& request);  // admin.cpp
  // What an upstream is asked for: the request itself, or a part of it.
  struct Asking {
    http::Method method;
    std::string_view target;
    Choosing choosing = Choosing::as_asked;
    std::string_view range = {};    // a Range field; empty: none but the client's
    std::string_view upgrade = {};  // the protocol to switch to; empty: none
    bool has_begun = false;         // by try_forward()
    Lasting lasting = Lasting::no;
  };
  static Result<> pass_answer(serve::Request& request, serve::Peer::Handle passed);
  // Asks as often as is right. On success the answer's head is there, and the caller judges the try. `body`:
  // nullptr, if none is sent. The arguments outlive it. Cancel: partial — the upstream may have seen the
  // request.
  Task<Result<Way::Try>> ask(Call call, serve::Request* request, Way* way, http::PeerCall* passed,
                             RequestSource* body, Asking asking);
  // An object of an upstream that is not believed (verify.cpp).
  Task<Result<>> forward_verified(Call call, serve::Request* request, Way* way, Address address);
  struct Range;
  // True: the upstream cannot answer now, and the client was told so.
  Task<Result<bool>> find_range(Call call, serve::Request* request, Way* way, Range* range);
  Result<> answer_verified(serve::Request& request, Way::Try one, serve::Peer::Handle passed, Range* range);
  // Of a try without an answer. `heard`: since when the upstream had the whole request.
  Breaker::Verdict judge(const Call& call, const serve::Request& request, Lasting lasting, const Error& why,
                         Instant heard) const noexcept;
  // Of a service that is not built.
  Result<> refuse_unbuilt(serve::Request& request);

  Shared& shared_;
  serve::ShardContext context_;
  std::unique_ptr<FairTurns> turns_;
  Reception reception_;
  // Of the first shard.
  std::unique_ptr<History> history_;
  QuotaRecord saved_;  // as it is in the file
  bool verify_ = true;
  std::array<Way, upstream_names.size()> ways_;
};

}  // namespace cairn::gateway
