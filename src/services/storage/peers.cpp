#include "services/storage/peers.h"

#include <array>

#include "base/heap_bytes.h"
#include "codec/json_reader.h"
#include "crypto/macaroon.h"
#include "serve/metrics.h"

namespace cairn::storage {
namespace {

constexpr std::size_t answer_most = 64 << 10, token_most = 16 << 10;
// One request at a time, and one more while a connection ends.
constexpr std::size_t connections_most = 2;

class DocumentSource final : public io::BodySource {
 public:
  explicit DocumentSource(std::string_view text) : text_(text) {}
  Task<Result<io::Piece>> next(Call) override {
    co_return io::Piece::memory(as_bytes(std::exchange(text_, {})));
  }

 private:
  std::string_view text_;
};

std::optional<Error> refusal_of(int status) noexcept {
  constexpr Side side = Side::upstream;
  if (status == 200) return std::nullopt;
  if (status == 401) return Error{ErrorCode::unauthorized, "the index asks for a capability", side};
  if (status == 403) return Error{ErrorCode::forbidden, "the capability does not allow node.peer", side};
  if (status == 429) return Error{ErrorCode::busy, "the index is busy", side};
  if (status >= 500 || status == 408) return Error{ErrorCode::degraded, "the index cannot take it now", side};
  return Error{ErrorCode::malformed, "the index does not take such a batch", side};
}

Error no_answer() noexcept {
  return {ErrorCode::upstream, "the index says what this node does not understand", Side::upstream};
}

Result<IndexPort::Told> read_told(std::string_view text) {
  codec::JsonReader reader;
  TRY(const codec::JsonValue root, reader.parse(text));
  TRY(codec::JsonObject object, root.object());
  IndexPort::Told told;
  TRY(told.taken, object.required_uint("taken"));
  TRY(told.ignored, object.required_uint("ignored"));
  TRY(const std::string_view epoch, object.required_string("epoch"));
  const auto parsed = parse_ulid(epoch);
  if (!parsed) return fail(no_answer());
  told.epoch = *parsed;
  return told;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the disk is the machine's
Task<Result<std::string>> read_token(Call call, io::Disk& disk, std::string path) {
  CO_TRY(const auto file, co_await disk.open(call, path, io::OpenMode::read));
  CO_TRY(const std::uint64_t size, file->size());
  if (size > token_most) co_return fail(ErrorCode::malformed, "the token's file is larger than a token");
  auto memory = std::make_shared<HeapBytes>(static_cast<std::size_t>(size));
  CO_TRY(const std::size_t got, co_await file->read_into(call, 0, {memory->room(), memory}));
  memory->fill(got);
  const std::string_view text = as_text(std::as_const(*memory).bytes());
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == text.npos) co_return fail(ErrorCode::malformed, "the token's file is empty");
  co_return std::string(text.substr(0, end + 1));
}

}  // namespace

IndexPeer::IndexPeer(io::Machine& machine, serve::Peer& peer, std::string token_file,
                     const Counters& counters)
    : machine_(machine), peer_(peer), token_file_(std::move(token_file)), counters_(counters) {
  peer_.set_retries({.backoff = {.tries = 1}, .total = Instant::never() - Instant{}});
  peer_.set_limits({.connections = connections_most, .lasting = 1, .waiting = 0});
}

void IndexPeer::take_keys(serve::KeySnapshotPtr keys) noexcept {
  if (keys_ != nullptr && (keys == nullptr || keys->version < keys_->version)) return;
  keys_ = std::move(keys);
  token_.clear();
}

// For the index alone and this one operation.
Result<> IndexPeer::mint_token() {
  const crypto::RootKey* const key = keys_->ring.find_minting();
  if (key == nullptr) return fail(ErrorCode::unauthorized, "every root key is revoked");
  std::array<std::uint64_t, 2> random{};
  machine_.entropy.fill(std::as_writable_bytes(std::span(random)));
  crypto::Macaroon token =
      crypto::mint(*key, "cairn", make_ulid(machine_.shard.wall(), random[0], random[1]));
  for (const char* caveat : {"op = node.peer", "svc = index"}) {
    TRY(token, crypto::attenuate(std::move(token), caveat));
  }
  token_ = crypto::format_token(token);
  return {};
}

Task<Result<>> IndexPeer::find_token(Call call) {
  if (!token_.empty()) co_return Result<>{};
  if (peer_.is_inside()) {
    if (keys_ != nullptr) co_return mint_token();
  } else if (!token_file_.empty()) {
    auto token = co_await read_token(call, machine_.disk, token_file_);
    if (!token && (call.stopped() || call.expired())) co_return fail(token.error());
    if (!token)
      co_return fail(ErrorCode::unauthorized, "the file of announce.token_file cannot be read as a token");
    token_ = std::move(*token);
  }
  co_return Result<>{};
}

Task<Result<IndexPort::Told>> IndexPeer::tell(Call call, std::string document) {
  CO_TRY_VOID(co_await find_token(call));
  if (failed_) counters_.retries.at(serve::Repeated::upstream).add(counters_.slot);
  auto answer = co_await ask(call, std::move(document));
  failed_ = !answer;
  if (!answer) {
    count(answer.error());
    // Its file may be another one by now.
    if (answer.error().code == ErrorCode::unauthorized || answer.error().code == ErrorCode::forbidden)
      token_.clear();
    co_return fail(answer.error());
  }
  auto told = read_told(*answer);
  if (!told) co_return fail(no_answer());
  co_return *told;
}

void IndexPeer::count(const Error& why) noexcept {
  if (why.code != ErrorCode::timeout) return;
  counters_.timeouts.at(why.undone ? serve::IoOp::connect : serve::IoOp::rpc).add(counters_.slot);
}

Task<Result<std::string>> IndexPeer::ask(Call call, std::string document) {
  DocumentSource source(document);
  const serve::Peer::Handle asked = peer_.call();
  io::PeerAddress self;
  self.local = self.same_user = true;
  asked->start(http::Method::post, "/providers", self);
  asked->add_field("Content-Type", "application/json");
  if (!token_.empty()) asked->add_field("Authorization", "Bearer " + token_);
  asked->set_body(source, document.size());
  CO_TRY_VOID(co_await asked->ask(call));
  if (const auto refused = refusal_of(asked->status())) co_return fail(*refused);
  std::string answer;
  while (!asked->done()) {
    CO_TRY(const io::Piece piece, co_await asked->next(call));
    if (piece.bytes.empty()) break;
    answer += as_text(piece.bytes);
    if (answer.size() > answer_most) co_return fail(no_answer());
  }
  co_return answer;
}

}  // namespace cairn::storage
