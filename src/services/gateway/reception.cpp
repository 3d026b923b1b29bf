#include "services/gateway/reception.h"

#include <algorithm>

#include "base/mix.h"
#include "http/conversation.h"
#include "runtime/frame_pool.h"

namespace cairn::gateway {
namespace {

unsigned whole_seconds(Duration duration) noexcept {
  return static_cast<unsigned>(std::max<std::int64_t>(1, (duration.ns + 999'999'999) / 1'000'000'000));
}

constexpr http::MethodSet reading = http::Method::get | http::Method::head | http::Method::options;

// Else only the head is sent, whatever Content-Length says.
bool sends_body(const serve::Request& request) noexcept {
  const int status = request.response.status;
  return request.head().method != http::Method::head && status != 204 && status != 304;
}

}  // namespace

// An answer's stream: its bytes are counted for the tenant, and charged beyond what was paid.
class Reception::Metered final : public io::BodySource, public PooledFrame {
 public:
  Metered(Shard& shard, std::unique_ptr<io::BodySource> from, std::shared_ptr<void> of, std::uint64_t paid)
      : shard_(shard), from_(std::move(from)), tenant_(std::move(of)), paid_(paid) {}

  std::optional<io::Piece> try_next() override {
    auto piece = from_->try_next();
    if (piece) count(*piece);
    return piece;
  }
  Task<Result<io::Piece>> next(Call call) override {
    CO_TRY(io::Piece piece, co_await from_->next(call));
    count(piece);
    co_return piece;
  }

 private:
  void count(const io::Piece& piece) noexcept {
    auto& tenant = *static_cast<Tenant*>(tenant_.get());
    sent_ += piece.size();
    if (sent_ > paid_) {
      const std::uint64_t units = (sent_ - paid_ + unit - 1) / unit;
      tenant.turns.charge(units);
      paid_ += units * unit;
    }
    tenant.quota.count_bytes(piece.size(), shard_.wall());
  }

  Shard& shard_;
  std::unique_ptr<io::BodySource> from_;
  std::shared_ptr<void> tenant_;
  std::uint64_t paid_;  // bytes that were charged
  std::uint64_t sent_ = 0;
};

// A conversation is a stream too: what the client is told is counted like one.
class Reception::MeteredTalk final : public http::Conversation {
 public:
  MeteredTalk(Shard& shard, std::unique_ptr<http::Conversation> talk, std::shared_ptr<void> of,
              std::uint64_t paid)
      : talk_(*talk), metered_(shard, std::move(talk), std::move(of), paid) {}
  Task<Result<io::Piece>> next(Call call) override { return metered_.next(call); }
  Task<> listen(Call call, http::RequestBody& arriving) override { return talk_.listen(call, arriving); }
  void drain() noexcept override { talk_.drain(); }

 private:
  http::Conversation& talk_;
  Metered metered_;  // owns it
};

Reception::Reception(Fairness& fairness, const serve::ShardContext& context)
    : fairness_(fairness),
      admission_(context.admission),
      shard_(context.machine.shard),
      slot_(context.slot),
      authorizer_(context.keys ? std::make_unique<serve::Authorizer>(context.keys) : nullptr) {}

void Reception::take_keys(const serve::KeySnapshotPtr& keys) {
  if (authorizer_)
    authorizer_->take_keys(keys);
  else
    authorizer_ = std::make_unique<serve::Authorizer>(keys);
}

Result<> Reception::check_admin(const serve::Request& request) {
  if (!authorizer_)
    return fail(ErrorCode::forbidden, "the gateway has no keys to know an administrator by", Side::client);
  crypto::CapabilityRequest asked = who_asks(request);
  asked.op = "gateway.admin";
  asked.service = "gateway";
  asked.bytes = 0;
  TRY_VOID(authorizer_->authorize(request.fields(), asked));
  return {};
}

crypto::CapabilityRequest Reception::who_asks(const serve::Request& request) const noexcept {
  crypto::CapabilityRequest asked{.now = shard_.wall(), .local = request.peer().local};
  if (!request.peer().local) asked.ip = std::to_array(request.peer().bytes);
  return asked;
}

Result<TenantPtr> Reception::find_tenant(const serve::Request& request) {
  if (authorizer_) {
    const http::Fields& fields = request.fields();
    if (fields.repeated(http::FieldName::authorization))
      return fail(ErrorCode::unauthorized, "more than one Authorization", Side::client);
    if (!serve::find_bearer(fields).empty()) {
      TRY(const std::string_view tenant, authorizer_->find_tenant(fields, who_asks(request)));
      if (!tenant.empty()) return fairness_.tenants.find(tenant, false);
    }
  }
  const auto network = tenant_network(request.peer());
  Recent& recent = recent_[mix(network[0] ^ 0x9e3779b97f4a7c15u, network[1]) % recent_.size()];
  if (!recent.tenant || recent.network != network)
    recent = {network, fairness_.tenants.find(format_tenant_address(request.peer()), true)};
  return recent.tenant;
}

serve::Tenancy::Verdict Reception::admit(serve::Request& request, const serve::RouteSpec* spec) {
  auto found = find_tenant(request);
  if (!found) return {found.error(), serve::Rejected::unauthorized};
  request.tenant = *found;
  Tenant& tenant = **found;
  const bool reads = spec == nullptr || reading.has(request.head().method);
  const bool dear = expected_answer(request) >= 16 * unit;
  const Kind kind = !reads ? Kind::change : dear ? Kind::expensive_read : Kind::read;
  if (const Verdict verdict = admit_to_limits(request, tenant, kind); !verdict) return verdict;
  const Verdict verdict = admit_to_quota(request, tenant);
  if (!verdict) fairness_.tenants.leave(tenant, admission_.inflight);
  return verdict;
}

serve::Tenancy::Verdict Reception::admit_to_limits(serve::Request& request, Tenant& tenant, Kind kind) {
  Tenants& tenants = fairness_.tenants;
  const std::uint64_t asking = tenants.asking(tenant, request.started());
  const std::uint64_t share =
      std::max<std::uint64_t>(1, admission_.inflight.limit() * tenant.turns.weight() / asking);
  const bool above = tenant.turns.places.load(std::memory_order_relaxed) * asking >
                         tenant.turns.weight() * fairness_.scheduler->waiting() ||
                     tenant.inside.load(std::memory_order_relaxed) >= share;
  if (fairness_.pressure.sheds(kind, above))
    return {{ErrorCode::degraded, "the gateway is under pressure and sheds such requests"},
            serve::Rejected::degraded};
  if (!tenants.try_enter(tenant, asking, admission_.inflight))
    return {{ErrorCode::busy, "too many requests in flight", Side::client}, serve::Rejected::inflight};
  const RateVerdict rate = tenants.try_take(tenant, asking, admission_.rate, request.started());
  if (rate) return {};
  tenants.leave(tenant, admission_.inflight);
  return {{ErrorCode::quota, "request rate over its limit", Side::client},
          serve::Rejected::rate,
          whole_seconds(rate.retry_after)};
}

serve::Tenancy::Verdict Reception::admit_to_quota(serve::Request& request, Tenant& tenant) {
  const Quota::Standing standing = tenant.quota.try_take(request.started(), shard_.wall());
  if (!standing.has_quota) return {};
  http::Response& response = request.response;
  response.add_number("RateLimit-Limit", standing.limit);
  response.add_number("RateLimit-Remaining", standing.remaining);
  response.add_number("RateLimit-Reset", standing.reset);
  response.fields.keep();
  if (!standing.spent) return {};
  fairness_.metrics.exhaustions.at(tenant.label).add(slot_);
  return {{ErrorCode::quota, "the tenant's quota is used up", Side::client},
          serve::Rejected::quota,
          static_cast<unsigned>(standing.retry_after)};
}

void Reception::leave(serve::Request& request) noexcept {
  fairness_.tenants.leave(tenant_of(request), admission_.inflight);
}

std::uint64_t Reception::expected_answer(const serve::Request& request) const noexcept {
  if (request.head().method != http::Method::get || request.route.id >= answers_.size()) return 0;
  return answers_[request.route.id];
}

std::uint32_t Reception::cost_of(const serve::Request& request) const noexcept {
  const http::RequestHead& head = request.head();
  const std::uint64_t body = head.body == http::BodyKind::length ? head.content_length : 0;
  const std::uint64_t most = DeficitRoundRobin::cost_max;
  const std::uint64_t units =
      1 + std::min(body / unit, most) + std::min(expected_answer(request) / unit, most);
  return static_cast<std::uint32_t>(std::min(units, most));
}

Seeking Reception::seek(serve::Request& request) {
  request.cost = cost_of(request);
  return {.cost = request.cost, .tenant = &tenant_of(request).turns};
}

// Three quarters of what was expected, and a quarter of what came.
void Reception::learn(std::size_t route, std::uint64_t bytes) noexcept {
  if (route >= answers_.size()) answers_.resize(route + 1);
  answers_[route] = answers_[route] / 4 * 3 + std::min(bytes, 64 * unit) / 4;
}

void Reception::answering(serve::Request& request) {
  http::Response& response = request.response;
  const bool is_stream = response.kind == http::Response::Body::stream;
  const std::uint64_t paid = expected_answer(request) / unit * unit + unit;
  if (request.head().method == http::Method::get && response.has_length() && response.status == 200)
    learn(request.route.id, response.size());
  if (!sends_body(request)) return;
  if (response.switches) {
    std::unique_ptr<http::Conversation> talk(response.conversation);
    (void)response.source.release();  // the same object
    response.switch_to(std::make_unique<MeteredTalk>(shard_, std::move(talk), request.tenant, paid));
  } else if (is_stream) {
    response.source = std::make_unique<Metered>(shard_, std::move(response.source), request.tenant, paid);
  } else {
    count_whole(tenant_of(request), response.size(), paid);
  }
}

void Reception::count_whole(Tenant& tenant, std::uint64_t bytes, std::uint64_t paid) noexcept {
  if (bytes > paid) tenant.turns.charge((bytes - paid + unit - 1) / unit);
  tenant.quota.count_bytes(bytes, shard_.wall());
}

void Reception::finished(const serve::Request& request, bool) noexcept {
  const std::uint64_t received = request.body.received();
  if (received == 0) return;
  Tenant& tenant = tenant_of(request);
  tenant.quota.count_bytes(received, shard_.wall());
  const http::RequestHead& head = request.head();
  const std::uint64_t told = head.body == http::BodyKind::length ? head.content_length : 0;
  if (received > told) tenant.turns.charge((received - told) / unit);
}

}  // namespace cairn::gateway
