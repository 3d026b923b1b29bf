#include "services/registry/head_stream.h"

#include <algorithm>

#include "http/query.h"
#include "http/websocket/handshake.h"
#include "services/registry/render.h"
#include "services/registry/shard.h"

namespace cairn::registry {
namespace {

constexpr std::uint64_t resume_max = 1024;
constexpr std::size_t heads_at_once = 64;

// The version that the client has seen last. A browser's page can send no field with a WebSocket, so the
// query may say it as well.
Result<std::optional<std::uint64_t>> read_last_seen(const serve::Request& request) {
  std::string room(request.head().query().size(), '\0');
  TRY(const http::Query query, http::parse_query(request.head().query(), room));
  TRY_VOID(query.allow_only({"last_event_id"}));
  const auto asked = query.find("last_event_id");
  if (!asked) return http::read_last_event_id(request.fields());
  if (request.fields().has(http::FieldName::last_event_id))
    return fail(ErrorCode::malformed, "Last-Event-ID and last_event_id at once", Side::client);
  TRY(const std::uint64_t last, http::parse_event_id(*asked));
  return std::optional(last);
}

}  // namespace

void append_message(std::string& out, std::string_view event, std::string_view id, std::string_view data) {
  std::string message = R"({"event":)";
  codec::append_json_string(message, event);
  message += R"(,"id":)";
  codec::append_json_string(message, id);
  message.append(R"(,"data":)").append(data).append("}");
  http::websocket::append_text(out, message);
}

HeadStream::HeadStream(Port& port, EventText& text, std::function<void(std::uint64_t)> lagged,
                       std::optional<std::uint64_t> last)
    : port_(port), text_(text), lagged_(std::move(lagged)) {
  const std::uint64_t head = port_.head().version;
  if (last && *last > head) rolled_back_ = last;
  next_ = last ? std::min(*last, head) + 1 : head;
}

HeadStream::~HeadStream() {
  if (const std::uint64_t missed = port_.told_since(next_); missed > port_.registry().options().channel_bound)
    lagged_(missed);
}

// The ledger's heads from `next_` on; none when they are too many, or no longer kept.
std::vector<Head> HeadStream::catch_up(std::uint64_t head) {
  std::vector<Head> heads;
  port_.registry().ledger().with([&](Ledger& ledger) {
    if (head - next_ >= resume_max || next_ < ledger.first_kept()) return;
    for (; next_ <= head && heads.size() < heads_at_once; ++next_) heads.push_back(ledger.head_of(next_));
  });
  return heads;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): belongs to the stream
Task<Result<http::EventFeed::More>> HeadStream::next(Call call, std::string& out) {
  if (rolled_back_) {
    tell_rollback(out, *std::exchange(rolled_back_, {}));
    co_return More::yes;
  }
  if (const std::uint64_t head = port_.told().version; next_ <= head && !receiver_) {
    const std::vector<Head> heads = catch_up(head);
    if (heads.empty()) tell_lag(out, head + 1 - next_);
    for (const Head& one : heads) tell(out, one);
    co_return More::yes;
  }
  if (!receiver_) receiver_.emplace(port_.committed());
  for (;;) {
    const auto got = co_await receiver_->recv(call);
    if (!got && got.error().code == ErrorCode::closed) co_return More::no;
    const bool behind = !got && got.error().code == ErrorCode::lagged;
    if (!got && !behind) co_return fail(got.error());
    if (got && got->version < next_) continue;
    if (got && got->version == next_) {
      ++next_;
      tell(out, *got);
      co_return More::yes;
    }
    // The broadcast dropped some heads, or they were dropped on their way to this shard. The stream skips
    // those that are still at hand too: the newest head is enough to go on from.
    const std::uint64_t missed = port_.told_since(next_);
    if (missed == 0) continue;
    lagged_(missed);
    tell_lag(out, missed);
    co_return More::yes;
  }
}

// The head, with the field `prev` by which a reader sees whether it follows the last head that it saw.
void HeadStream::write(codec::JsonWriter& json, const Head& head) {
  Address prev;
  std::optional<crypto::MerkleHash> root;
  port_.registry().ledger().with([&](Ledger& ledger) {
    if (head.version > 0) prev = ledger.version(head.version - 1).commit_b3;
    if (head.version < ledger.provable()) root = ledger.tree().root_at(head.version + 1);
  });
  write_head(json, head, prev, root);
}

// The text is rendered once for all subscribers of the shard.
void HeadStream::tell(std::string& out, const Head& head) {
  if (text_.text.empty() || text_.version != head.version) {
    std::string data;
    codec::JsonWriter json(data);
    write(json, head);
    json.finish();
    text_.version = head.version;
    text_.text.clear();
    text_.append(text_.text, "head", std::to_string(head.version), data);
  }
  out += text_.text;
}

void HeadStream::tell_lag(std::string& out, std::uint64_t missed) {
  const Head head = port_.told();
  std::string data;
  codec::JsonWriter json(data);
  json.begin_object().field("missed", missed).key("head");
  write(json, head);
  json.end_object().finish();
  text_.append(out, "lagged", std::to_string(head.version), data);
  next_ = head.version + 1;
}

void HeadStream::tell_rollback(std::string& out, std::uint64_t last) {
  const Head head = port_.head();
  std::string data;
  codec::JsonWriter json(data);
  json.begin_object().field("last", last).key("head");
  write(json, head);
  json.end_object().finish();
  text_.append(out, "rollback", std::to_string(head.version), data);
  next_ = head.version + 1;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): belongs to the socket
Task<Result<HeadTalk::More>> HeadTalk::next(Call call, std::string& out) {
  CO_TRY(const auto more, co_await heads_->next(call, out));
  co_return more == http::EventFeed::More::yes ? More::yes : More::no;
}

Result<> RegistryShard::stream(serve::Request& request) {
  TRY(const auto last, read_last_seen(request));
  const auto lagged = [this](std::uint64_t missed) {
    context_.metrics.count_lag("committed", "connection", slot_, missed);
  };
  const bool messages = http::websocket::is_asked_for(request.exchange);
  auto heads = std::make_unique<HeadStream>(*port_, messages ? message_ : event_, lagged, last);
  if (messages)
    return http::websocket::answer(request.exchange, std::make_unique<HeadTalk>(std::move(heads)));
  http::answer_events(request.response, std::move(heads));
  return {};
}

}  // namespace cairn::registry
