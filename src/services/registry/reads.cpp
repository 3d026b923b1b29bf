// Reads: head, versions, ranges, proofs, tiles, proposals, the stream. Answers that never change say so.
#include <charconv>

#include "codec/base64.h"
#include "codec/json_writer.h"
#include "crypto/tile.h"
#include "http/conditional.h"
#include "serve/answer.h"
#include "services/registry/render.h"
#include "services/registry/shard.h"

namespace cairn::registry {

using codec::JsonWriter;
using http::FieldName;
using serve::Request;

namespace {

constexpr http::FieldLines forever = "Cache-Control: public, max-age=31536000, immutable\r\n";
constexpr http::FieldLines revalidate = "Cache-Control: no-cache\r\n";
constexpr std::uint64_t list_limit_max = 1000;
// A page of proposals ends at its limit or, since each may have an approval of every signer, at these.
constexpr std::size_t page_approvals_max = 1024;
// Bytes of a bundle of entries that are held while it is sent.
constexpr std::size_t entries_at_once = 64 << 10;
constexpr std::string_view json_type = "application/json", cbor_type = "application/cbor";

// The query after the '?', parsed strictly.
Result<http::Query> query_of(const Request& request, std::string& room) {
  const std::string_view raw = request.head().query();
  room.resize(raw.size());
  return http::parse_query(raw, room);
}

Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size() ||
      (text.size() > 1 && text[0] == '0'))
    return fail(ErrorCode::malformed, "a number was expected in the query", Side::client);
  return value;
}

// Whether the client accepts CBOR.
bool wants_cbor(std::string_view accept) {
  while (!accept.empty()) {
    const std::size_t comma = std::min(accept.find(','), accept.size());
    std::string_view one = accept.substr(0, comma);
    accept.remove_prefix(std::min(comma + 1, accept.size()));
    const std::size_t semicolon = one.find(';');
    const bool refused = semicolon != std::string_view::npos &&
                         one.substr(semicolon).find("q=0") != std::string_view::npos &&
                         one.find_first_of("123456789", semicolon) == std::string_view::npos;
    one = one.substr(0, semicolon);
    while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
    while (!one.empty() && (one.back() == ' ' || one.back() == '\t')) one.remove_suffix(1);
    if (http::equals_ignoring_case(one, cbor_type)) return !refused;
  }
  return false;
}

// True: the request's conditions decided the answer.
bool settle_conditions(Request& request, std::string_view etag) {
  const http::Verdict verdict = http::evaluate(request.fields(), request.head().method,
                                               {.etag = etag, .last_modified = {}, .exists = true});
  if (verdict.outcome == http::Precondition::not_modified) {
    request.response.status = 304;
    return true;
  }
  if (verdict.outcome == http::Precondition::failed) {
    serve::answer_error(request, {ErrorCode::precondition_failed, "it has another tag", Side::client});
    return true;
  }
  return false;
}

template <class T>
io::Hold hold_of(std::shared_ptr<const T> owner) {
  return {new std::shared_ptr<const T>(std::move(owner)),
          [](void* object) noexcept { delete static_cast<std::shared_ptr<const T>*>(object); }};
}

void write_hashes(JsonWriter& json, const std::vector<crypto::MerkleHash>& hashes) {
  json.key("hashes").begin_array();
  for (const crypto::MerkleHash& hash : hashes) json.value(codec::encode_base64(hash));
  json.end_array();
}

}  // namespace

// --- the head

void RegistryShard::answer_head(Request& request) {
  const Head head = port_->head();
  if (!head_ || head_->version != head.version) {
    auto rendered = std::make_shared<Rendered>();
    rendered->version = head.version;
    rendered->etag = '"' + format_address(head.commit_b3) + '"';
    JsonWriter json(rendered->json);
    write_head(json, head);
    json.finish();
    head_ = std::move(rendered);
  }
  request.response.add_field("ETag", head_->etag);
  request.response.add_lines(revalidate);
  if (settle_conditions(request, head_->etag)) return;
  // Copied: the head may change while the answer is sent, and it is small.
  request.response.text = head_->json;
  request.response.answer_text(json_type);
}

bool RegistryShard::try_head(Request& request) {
  if (request.head().query().empty()) {
    answer_head(request);
    return true;
  }
  std::string room;
  const auto query = query_of(request, room);
  const auto after = query ? query->find("after") : std::nullopt;
  const auto version = after ? parse_number(*after) : Result<std::uint64_t>(0);
  const auto wait = query ? query->find("wait") : std::nullopt;
  if (!query || !query->allow_only({"after", "wait"}) || !version || (wait && !parse_duration(*wait))) {
    serve::answer_error(request, {ErrorCode::malformed, "ask with ?after=VERSION&wait=30s", Side::client});
    return true;
  }
  if (after && wait && port_->head().version <= *version) return false;
  answer_head(request);
  return true;
}

// The long poll: the next head, or the present one when the time is up.
Task<Result<>> RegistryShard::wait_for_head(Call call, Request& request) {
  std::string room;
  CO_TRY(const auto query, query_of(request, room));
  CO_TRY(const std::uint64_t version, parse_number(query.find("after").value_or("0")));
  const Duration wait = parse_duration(query.find("wait").value_or("0s")).value_or(Duration{});
  const Call narrow = call.within(std::min(wait, serve::open_wait_max));
  auto head = co_await port_->wait_past(narrow, version);
  if (!head && head.error().code != ErrorCode::timeout) co_return fail(head.error());
  answer_head(request);
  co_return Result<>{};
}

// --- versions

bool RegistryShard::try_version(Request& request) {
  const ArtifactPtr artifact = port_->find_version(request.route.at[0].number);
  if (!artifact) return false;
  answer_artifact(request, artifact);
  return true;
}

void RegistryShard::answer_artifact(Request& request, const ArtifactPtr& artifact) {
  http::Response& response = request.response;
  const bool cbor = wants_cbor(request.fields().get(FieldName::accept));
  // The only change that a version's answer can see is the mark that it was superseded.
  const std::string etag = '"' + format_address(cbor ? artifact->head.payload_b3 : artifact->head.commit_b3) +
                           (!cbor && artifact->superseded ? "-superseded\"" : "\"");
  response.add_field("ETag", etag);
  response.add_lines(forever);
  response.add_field("Vary", "Accept");
  if (settle_conditions(request, etag)) return;
  if (cbor)
    response.answer_held(cbor_type, artifact->payload, hold_of<Artifact>(artifact));
  else
    response.answer_held(json_type, artifact->json, hold_of<Artifact>(artifact));
}

Task<Result<>> RegistryShard::version(Call call, Request& request) {
  auto artifact = co_await port_->read_version(call, request.route.at[0].number);
  if (!artifact && artifact.error().code == ErrorCode::pruned) {
    answer_pruned(request);
    co_return Result<>{};
  }
  if (!artifact && artifact.error().code == ErrorCode::integrity) shared_.metrics.integrity.at(0).add(slot_);
  if (!artifact) co_return fail(artifact.error());
  answer_artifact(request, *artifact);
  co_return Result<>{};
}

void RegistryShard::answer_pruned(Request& request) {
  std::string details;
  JsonWriter json(details);
  json.begin_object();
  shared_.registry->ledger().with([&](Ledger& ledger) {
    json.field("first_kept", ledger.first_kept());
    if (ledger.checkpoint()) json.field("checkpoint", ledger.checkpoint()->note);
  });
  json.end_object().finish();
  serve::answer_error(request, {ErrorCode::pruned, "this version is no longer kept", Side::client}, details);
}

Result<> RegistryShard::log_range(Request& request) {
  std::string room;
  TRY(const http::Query query, query_of(request, room));
  TRY_VOID(query.allow_only({"from", "limit"}));
  TRY(const std::uint64_t from, parse_number(query.find("from").value_or("0")));
  TRY(const std::uint64_t limit, parse_number(query.find("limit").value_or("100")));
  if (limit == 0 || limit > list_limit_max)
    return fail(ErrorCode::malformed, "limit must be 1 to 1000", Side::client);
  struct Row {
    Head head;
    bool superseded;
  };
  std::vector<Row> rows;
  std::uint64_t size = 0, first = 0;
  shared_.registry->ledger().with([&](Ledger& ledger) {
    size = ledger.size(), first = ledger.first_kept();
    for (std::uint64_t v = std::max(from, first); v < size && rows.size() < limit; ++v)
      rows.push_back({ledger.head_of(v), ledger.version(v).superseded});
  });
  if (from < first) {
    answer_pruned(request);
    return {};
  }
  JsonWriter json(request.response.text);
  json.begin_object().key("commits").begin_array();
  for (const Row& row : rows) {
    json.begin_object()
        .field("version", row.head.version)
        .field("payload_b3", format_address(row.head.payload_b3))
        .field("commit_b3", format_address(row.head.commit_b3))
        .field("committed_at", format_rfc3339(row.head.committed_at));
    if (row.superseded) json.field("superseded_by", row.head.version + 1);
    json.end_object();
  }
  json.end_array();
  if (from + rows.size() < size) json.field("next", from + rows.size());
  json.end_object().finish();
  request.response.add_lines(revalidate);
  request.response.answer_text(json_type);
  return {};
}

// --- proofs

Result<> RegistryShard::checkpoint(Request& request) {
  const auto note = shared_.registry->ledger().with([](Ledger& ledger) {
    return ledger.checkpoint() ? std::optional(ledger.checkpoint()->note) : std::nullopt;
  });
  if (!note) return fail(ErrorCode::not_ready, "the first checkpoint is not signed yet");
  request.response.text = *note;
  request.response.add_lines(revalidate);
  request.response.answer_text("text/plain; charset=utf-8");
  return {};
}

Result<std::uint64_t> RegistryShard::tree_size(const http::Query& query, std::string_view name) {
  const std::uint64_t provable =
      shared_.registry->ledger().with([](Ledger& ledger) { return ledger.provable(); });
  const auto text = query.find(name);
  TRY(const std::uint64_t size, text ? parse_number(*text) : Result<std::uint64_t>(provable));
  if (size > provable) return fail(ErrorCode::not_found, "the tree is not that large", Side::client);
  return size;
}

Result<> RegistryShard::inclusion(Request& request) {
  std::string room;
  TRY(const http::Query query, query_of(request, room));
  TRY_VOID(query.allow_only({"version", "size"}));
  const auto text = query.find("version");
  if (!text) return fail(ErrorCode::malformed, "ask with ?version=V&size=N", Side::client);
  TRY(const std::uint64_t index, parse_number(*text));
  TRY(const std::uint64_t size, tree_size(query, "size"));
  if (index >= size) return fail(ErrorCode::not_found, "the tree does not have this version", Side::client);
  const auto hashes = shared_.registry->ledger().with(
      [&](Ledger& ledger) { return ledger.tree().inclusion_proof(index, size); });
  JsonWriter json(request.response.text);
  json.begin_object().field("index", index).field("size", size);
  write_hashes(json, hashes);
  json.end_object().finish();
  request.response.add_lines(query.find("size") ? forever : revalidate);
  request.response.answer_text(json_type);
  return {};
}

Result<> RegistryShard::consistency(Request& request) {
  std::string room;
  TRY(const http::Query query, query_of(request, room));
  TRY_VOID(query.allow_only({"from", "to"}));
  if (!query.find("from")) return fail(ErrorCode::malformed, "ask with ?from=N&to=N", Side::client);
  TRY(const std::uint64_t from, tree_size(query, "from"));
  TRY(const std::uint64_t to, tree_size(query, "to"));
  if (from > to) return fail(ErrorCode::malformed, "from must not be larger than to", Side::client);
  const auto hashes = shared_.registry->ledger().with(
      [&](Ledger& ledger) { return ledger.tree().consistency_proof(from, to); });
  JsonWriter json(request.response.text);
  json.begin_object().field("from", from).field("to", to).field("size", to);
  write_hashes(json, hashes);
  json.end_object().finish();
  request.response.add_lines(query.find("to") ? forever : revalidate);
  request.response.answer_text(json_type);
  return {};
}

// Tiles with hashes come from memory; false: a bundle of entries, which a worker reads.
Result<bool> RegistryShard::try_tile(Request& request) {
  const auto tile = crypto::parse_tile_path("tile/" + std::string(request.route.at[0].text));
  if (!tile) return fail(ErrorCode::not_found, "there is no such tile", Side::client);
  if (tile->entries) return false;
  const bool there = shared_.registry->ledger().with([&](Ledger& ledger) {
    if (crypto::tile_width(tile->level, tile->index, ledger.provable()) < tile->width) return false;
    const auto nodes = ledger.tree().nodes(tile->level * crypto::tile_height,
                                           tile->index * crypto::tile_width_max, tile->width);
    request.response.text.assign(as_text(std::as_bytes(nodes)));
    return true;
  });
  if (!there) return fail(ErrorCode::not_found, "there is no such tile", Side::client);
  request.response.add_lines(forever);
  request.response.answer_text("application/octet-stream");
  return true;
}

namespace {

// Entries of the log as a bundle of tlog-tiles, a part at a time: 256 of them may be 16 MiB.
class EntrySource final : public io::BodySource {
 public:
  EntrySource(Port& port, std::uint64_t first, std::uint64_t end) noexcept
      : port_(port), next_(first), end_(end) {}

  bool done() const noexcept { return next_ == end_; }
  std::string take() noexcept { return std::exchange(part_, {}); }
  // The next part, after the one before was sent. Cancel: clean.
  Task<Result<>> fill(Call call) {
    part_.clear();
    while (!done() && part_.size() < entries_at_once) {
      CO_TRY(const std::string commit, co_await port_.read_commit(call, next_));
      crypto::append_entry(part_, as_bytes(commit));
      ++next_;
    }
    co_return Result<>{};
  }
  Task<Result<io::Piece>> next(Call call) override {
    // The first part was read before the answer began.
    if (!std::exchange(begun_, true)) co_return io::Piece::memory(as_bytes(part_));
    CO_TRY_VOID(co_await fill(call.within(patience)));
    co_return io::Piece::memory(as_bytes(part_));
  }

 private:
  static constexpr Duration patience = Duration::seconds(5);

  Port& port_;
  std::uint64_t next_, end_;
  bool begun_ = false;
  std::string part_;
};

}  // namespace

Task<Result<>> RegistryShard::entries(Call call, Request& request) {
  const auto tile = crypto::parse_tile_path("tile/" + std::string(request.route.at[0].text));
  if (!tile || !tile->entries) co_return fail(ErrorCode::not_found, "there is no such tile", Side::client);
  const bool there = shared_.registry->ledger().with(
      [&](Ledger& ledger) { return crypto::tile_width(0, tile->index, ledger.size()) >= tile->width; });
  if (!there) co_return fail(ErrorCode::not_found, "there is no such tile", Side::client);
  const std::uint64_t first = tile->index * crypto::tile_width_max;
  auto bundle = std::make_unique<EntrySource>(*port_, first, first + tile->width);
  if (auto begun = co_await bundle->fill(call); !begun) {
    if (begun.error().code != ErrorCode::pruned) co_return fail(begun.error());
    answer_pruned(request);
    co_return Result<>{};
  }
  request.response.add_lines(forever);
  if (bundle->done()) {
    request.response.text = bundle->take();
    request.response.answer_text("application/octet-stream");
  } else {
    request.response.answer_stream("application/octet-stream", std::move(bundle));
  }
  co_return Result<>{};
}

// --- proposals

Task<Result<>> RegistryShard::proposals(Call, Request& request) {
  std::string room;
  CO_TRY(const http::Query query, query_of(request, room));
  CO_TRY_VOID(query.allow_only({"after", "limit"}));
  CO_TRY(const std::uint64_t limit, parse_number(query.find("limit").value_or("100")));
  const auto after = query.find("after") ? parse_ulid(*query.find("after")) : std::nullopt;
  if (limit == 0 || limit > list_limit_max || query.find("after").has_value() != after.has_value())
    co_return fail(ErrorCode::malformed, "ask with ?after=ID&limit=N, which is 1 to 1000", Side::client);
  // Copied under the lock, and written without it.
  std::vector<Pending> page;
  bool more = false;
  shared_.registry->ledger().with([&](Ledger& ledger) {
    const auto& all = ledger.pending();
    std::size_t approvals = 0;
    auto at = after ? all.upper_bound(*after) : all.begin();
    for (; at != all.end() && page.size() < limit && approvals < page_approvals_max; ++at) {
      page.push_back(at->second.without_items());
      approvals += at->second.approvals.size();
    }
    more = at != all.end();
  });
  JsonWriter json(request.response.text);
  json.begin_object().key("proposals").begin_array();
  for (const Pending& pending : page) {
    json.begin_object();
    write_pending(json, pending);
    json.end_object();
  }
  json.end_array();
  if (more) json.field("next", format_ulid(page.back().id));
  json.end_object().finish();
  request.response.add_lines(revalidate);
  request.response.answer_text(json_type);
  co_return Result<>{};
}

Task<Result<>> RegistryShard::audit(Call call, Request& request) {
  std::string room;
  CO_TRY(const http::Query query, query_of(request, room));
  CO_TRY_VOID(query.allow_only({"after", "limit"}));
  CO_TRY(const std::uint64_t limit, parse_number(query.find("limit").value_or("100")));
  std::optional<std::uint64_t> after;
  if (const auto given = query.find("after")) {
    CO_TRY(after, parse_number(*given));
  }
  if (limit == 0 || limit > list_limit_max)
    co_return fail(ErrorCode::malformed, "ask with ?after=SEQUENCE&limit=N, which is 1 to 1000",
                   Side::client);
  CO_TRY(const AuditPage page, co_await port_->read_audit(call, after, limit));
  JsonWriter json(request.response.text);
  json.begin_object().key("events").begin_array();
  for (const AuditSlot& slot : page.events) write_event(json, slot);
  json.end_array();
  if (page.next) json.field("next", *page.next);
  json.end_object().finish();
  request.response.add_field("Cache-Control", "no-store");
  request.response.answer_text(json_type);
  co_return Result<>{};
}

Task<Result<>> RegistryShard::proposal(Call call, Request& request) {
  const auto id = parse_ulid(request.route.at[0].text);
  struct Found {
    std::optional<Pending> pending;
    std::optional<std::uint64_t> version;
    bool stale = false;
  };
  const Found found = shared_.registry->ledger().with([&](Ledger& ledger) {
    Found out;
    if (!id) return out;
    if (const Pending* pending = ledger.find_pending(*id)) out.pending = *pending;
    out.version = ledger.find_committed(*id);
    out.stale = ledger.find_ended(*id) == Ended::stale;
    return out;
  });
  if (found.version) co_return fail(ErrorCode::conflict, "the proposal was committed", Side::client);
  if (found.stale)
    co_return fail(ErrorCode::chain_mismatch, "another version was committed first", Side::client);
  if (!found.pending) co_return fail(ErrorCode::not_found, "there is no such proposal", Side::client);
  CO_TRY(const std::string payload,
         co_await port_->read_payload(call, found.pending->set, found.pending->items.get(),
                                      found.pending->payload_b3));
  JsonWriter json(request.response.text);
  json.begin_object();
  write_pending(json, *found.pending);
  json.field("payload", codec::encode_base64(as_bytes(payload))).end_object().finish();
  request.response.add_lines(revalidate);
  request.response.answer_text(json_type);
  co_return Result<>{};
}

}  // namespace cairn::registry
