#include "http/h1/server.h"

#include <cstring>

#include "http/h1/connection.h"
#include "http/h2/connection.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

// How many refused connections are being told so at a time.
constexpr std::size_t telling_max = 64;
// How many connections beyond the caps may wait for their head. One more ends the one that has waited
// longest.
constexpr std::size_t unread_max = 128;
// A connection that has waited for less than this has not had time to ask.
constexpr Duration idle_min = Duration::seconds(1);
constexpr Duration accept_pause = Duration::millis(100);
constexpr std::size_t spare_exchanges = 64;
// Connections accepted before other tasks have their turn: a flood of new ones must not hold up the present
// ones.
constexpr unsigned accepts_per_turn = 64;
// How many connections are still accepted from a closing listener. A client that connects all the time must
// not keep it open.
constexpr unsigned accepts_at_the_end = 4096;

}  // namespace

Server::Server(io::Machine& machine, Gate& gate, Answerer& answerer, ServerOptions options)
    : machine_(machine), gate_(gate), answerer_(answerer), options_(options) {}

Server::~Server() { CHECK(connections() == 0); }

bool Server::may_tell() const noexcept { return standing(Gate::Admission::refused) < telling_max; }

ServedConnection* Server::find_idler(const Among& among) noexcept {
  const Instant now = machine_.shard.now();
  ServedConnection* found = nullptr;
  const auto look = [&](ServedConnection& each) {
    if ((found == nullptr || each.waits_since() < found->waits_since()) &&
        now - each.waits_since() >= idle_min && !each.stream().readable.ready() &&
        among.fits(among.context, each.stream().peer()))
      found = &each;
  };
  idlers_.for_each(look);
  shaking_.for_each(look);
  return found;
}

std::optional<Instant> Server::longest_idle(const Among& among) noexcept {
  const ServedConnection* found = find_idler(among);
  return found != nullptr ? std::optional(found->waits_since()) : std::nullopt;
}

bool Server::let_one_give_way(const Among& among) noexcept {
  ServedConnection* found = find_idler(among);
  if (found != nullptr) found->give_way();
  return found != nullptr;
}

Result<> Server::listen(const io::Endpoint& endpoint, bool health_only) {
  TRY(auto listener, machine_.network.listen(endpoint));
  open(std::move(listener), endpoint, health_only);
  return {};
}

Server::Door& Server::open(std::unique_ptr<io::Listener> listener, const io::Endpoint& endpoint,
                           bool health_only) {
  const bool encrypted = tls_ != nullptr && !health_only && endpoint.path.empty();
  doors_.push_back(std::make_unique<Door>(std::move(listener), health_only, encrypted, false, nullptr));
  return *doors_.back();
}

Result<> Server::rebind(const io::Endpoint& endpoint) {
  if (draining_) return fail(ErrorCode::draining, "rebind");  // no new connection may come in
  TRY(auto listener, machine_.network.listen(endpoint));
  const std::size_t before = doors_.size();
  start_accepting(open(std::move(listener), endpoint, false));
  for (std::size_t i = 0; i < before; ++i) {
    Door& door = *doors_[i];
    if (door.health_only || door.listener->local_address().starts_with("unix:")) continue;
    door.retired = true;
    door.accepting->cancel(StopReason::superseded);
  }
  return {};
}

void Server::start_accepting(Door& door) {
  Scope& scope = attends(door) ? *attending_ : *scope_;
  if (!attends(door)) ++open_doors_;
  door.accepting = std::make_unique<CancelSource>(machine_.shard, &scope.source());
  scope.spawn("listener", accept(scope.call(), door));
}

void Server::forget(Door& door) noexcept {
  std::erase_if(doors_, [&](const std::unique_ptr<Door>& each) { return each.get() == &door; });
}

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> all;
  for (const auto& door : doors_) all.push_back(door->listener->local_address());
  return all;
}

void Server::start(Scope& scope, Scope* attending) {
  scope_ = &scope;
  attending_ = attending;
  idle_ = std::make_unique<CancelSource>(machine_.shard, &scope.source());
  if (attending != nullptr) attended_ = std::make_unique<CancelSource>(machine_.shard, &attending->source());
  for (const auto& door : doors_) start_accepting(*door);
}

void Server::drain() noexcept {
  draining_ = true;
  for (const auto& door : doors_)
    if (door->accepting && !attends(*door)) door->accepting->cancel(StopReason::draining);
  if (idle_) idle_->cancel(StopReason::draining);
}

void Server::leave() noexcept {
  left_ = true;
  for (const auto& door : doors_)
    if (door->accepting && attends(*door)) door->accepting->cancel(StopReason::draining);
  if (attended_) attended_->cancel(StopReason::draining);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): only this task removes the door
Task<> Server::accept(Call call, Door& door) {
  io::Listener& listener = *door.listener;
  const Call waits = call.under(*door.accepting);
  while (!is_over(door)) {
    if (!co_await listener.acceptable.wait(waits)) break;
    unsigned taken = 0;
    while (taken < accepts_per_turn && take_one(call, door)) ++taken;
    if (taken == accepts_per_turn) {
      co_await yield(call);
      continue;
    }
    // Out of descriptors: new connections stay queued in the kernel while others finish.
    if (listener.acceptable.ready() && !co_await sleep_for(waits, accept_pause)) break;
  }
  // Connections that are already queued are served before the door closes.
  if (is_over(door)) {
    for (unsigned taken = 1; taken <= accepts_at_the_end && take_one(call, door); ++taken)
      if (taken % accepts_per_turn == 0) co_await yield(call);
  }
  listener.close();
  if (attends(door)) co_return;
  if (door.retired) forget(door);
  if (--open_doors_ == 0) gate_.doors_closed();
}

// False when nothing is queued, or accepting failed for want of resources.
bool Server::take_one(Call call, Door& door) {
  io::Listener::Accepted accepted = door.listener->try_accept();
  if (accepted.status != io::IoStatus::done) return false;
  try {
    welcome(call, std::move(accepted.stream), door);
  } catch (...) {  // no memory: this connection is lost; after a pause the next may succeed
    gate_.broke("a connection that could not be taken in");
    return false;
  }
  return true;
}

void Server::welcome(Call call, std::unique_ptr<io::Stream> stream, const Door& door) {
  const io::PeerAddress peer = stream->peer();
  const Gate::Admission admission = gate_.admit(peer, door.health_only);
  if (admission == Gate::Admission::refused && !may_tell()) {
    stream->close(true);
    return;
  }
  if (admission == Gate::Admission::extra && standing(admission) >= unread_max) {
    if (unread_.empty()) {  // all of them arrived just now
      gate_.closed_unread();
      gate_.left(peer, admission);
      stream->close(true);
      return;
    }
    ServedConnection* longest = &unread_.front();
    unread_.for_each([&](ServedConnection& each) {
      if (each.waits_since() < longest->waits_since()) longest = &each;
    });
    longest->give_way();
  }
  if (door.encrypted && handshakes_ >= options_.handshakes_max) shaking_.front().give_way();
  take_in(call, std::move(stream), admission, door);
}

void Server::take_in(Call call, std::unique_ptr<io::Stream> stream, Gate::Admission admission,
                     const Door& door) {
  const io::PeerAddress peer = stream->peer();
  std::unique_ptr<ServedConnection> connection;
  try {
    io::TlsStream* handshake = nullptr;
    if (door.encrypted) {
      auto secured = io::TlsStream::accept(tls_, machine_.shard, machine_.slab, std::move(stream));
      if (secured == nullptr) throw std::bad_alloc();
      handshake = secured.get();
      stream = std::move(secured);
    }
    connection = std::make_unique<Connection>(*this, std::move(stream), handshake, admission,
                                              door.health_only, attends(door));
  } catch (...) {
    gate_.left(peer, admission);
    throw;
  }
  (attends(door) ? attending_ : scope_)
      ->spawn("connection", ServedConnection::run(call, std::move(connection)), Waits::bounded);
}

std::unique_ptr<ServedConnection> Server::by_protocol(ServedConnection& connection) {
  if (connection.stream().protocol() != h2::protocol || connection.speaks() == h2::protocol) return nullptr;
  return std::make_unique<h2::Connection>(std::move(connection));
}

void Server::keep(std::unique_ptr<ServedConnection> connection) noexcept {
  connection->attend();
  try {
    attending_->spawn("connection", ServedConnection::run(attending_->call(), std::move(connection)),
                      Waits::bounded);
  } catch (...) {  // no memory: the connection is gone
    gate_.broke("a connection that could not be kept");
  }
}

WireExchange* Server::borrow() {
  if (spare_.empty()) return new WireExchange(options_.head);
  WireExchange* exchange = spare_.back().release();
  spare_.pop_back();
  exchange->parser.set_limits(options_.head);
  return exchange;
}

void Server::give_back(WireExchange* exchange) noexcept {
  exchange->clear();
  if (spare_.size() < spare_exchanges)
    spare_.emplace_back(exchange);
  else
    delete exchange;
}

h2::Stream* Server::borrow_stream() {
  h2::Stream* stream = nullptr;
  if (spare_streams_.empty()) {
    stream = new h2::Stream();
  } else {
    stream = spare_streams_.back().release();
    spare_streams_.pop_back();
  }
  stream->head.reset(options_.head);
  return stream;
}

void Server::give_back(h2::Stream* stream) noexcept {
  stream->clear();
  if (spare_streams_.size() < spare_exchanges)
    spare_streams_.emplace_back(stream);
  else
    delete stream;
}

std::string_view Server::date_line() noexcept {
  constexpr std::string_view before = "Date: ";
  constexpr std::string_view after = "\r\nX-Content-Type-Options: nosniff\r\n";
  constexpr std::size_t size = before.size() + http_date_size + after.size();
  static_assert(size <= sizeof date_line_);
  const WallTime wall = machine_.shard.wall();
  if (wall.ms / 1000 != date_second_) {
    date_second_ = wall.ms / 1000;
    char* at = date_line_.data();
    std::memcpy(at, before.data(), before.size());
    format_http_date_to(wall, at + before.size());
    std::memcpy(at + before.size() + http_date_size, after.data(), after.size());
  }
  return {date_line_.data(), size};
}

}  // namespace cairn::http
