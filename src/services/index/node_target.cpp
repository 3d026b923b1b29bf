#include "services/index/node_target.h"

#include "codec/base64.h"
#include "codec/json_reader.h"
#include "services/index/provider_set.h"

namespace cairn::index {
namespace {

constexpr std::size_t answer_max = std::size_t{128} << 10;

std::string target_of(const Question& question) {
  const auto* name = std::get_if<std::string>(&question);
  return "/resolve/" + (name != nullptr ? "name:" + *name : format_address(std::get<Address>(question))) +
         "?scope=local";
}

std::unexpected<Error> bad_answer(const char* why) { return fail(ErrorCode::upstream, why, Side::upstream); }

}  // namespace

NodeTarget::NodeTarget(io::Machine& machine, const IndexNode& node, std::shared_ptr<const io::TlsClient> tls)
    : Target({.name = node.id, .region = node.region, .latency_class = 0}),
      peer_(machine, {.name = node.id, .inside = nullptr, .endpoint = node.at, .tls = std::move(tls)}) {
  // A lookup asks again by itself, after its own waits.
  peer_.set_retries({.backoff = {.tries = 1}});
}

Result<Answer> read_records(const Question& question, std::string_view document) {
  codec::JsonReader reader;
  const auto root = reader.parse(document);
  if (!root) return bad_answer("a node's records are no JSON");
  auto object = root->object();
  if (!object) return bad_answer("a node's records are no object");
  const auto list = object->required("records");
  const auto items = list ? list->items() : fail(ErrorCode::malformed, "no records");
  if (!items) return bad_answer("a node's records are no list");
  Answer answer;
  std::size_t count = 0;
  for (const codec::JsonValue& item : *items) {
    if (++count > providers_max) return bad_answer("a node has too many records");
    const auto text = item.as_string();
    if (!text) return bad_answer("a node's record is no text");
    auto bytes = codec::decode_base64(*text);
    if (!bytes) return bad_answer("a node's record is not base64");
    // A record that is forged is as if it had not been sent.
    if (asks_for_name(question)) {
      if (auto change = format::decode_name_change(as_bytes(*bytes)))
        answer.changes.push_back({std::move(*change), std::move(*bytes)});
    } else if (auto record = format::decode_provider_record(as_bytes(*bytes))) {
      answer.providers.push_back({std::move(*record), std::move(*bytes)});
    }
  }
  return answer;
}

Task<Result<Answer>> NodeTarget::ask(Call call, Question question) {
  auto body = co_await fetch(call, peer_, target_of(question), "", answer_max);
  if (!body && body.error().code == ErrorCode::not_found) co_return Answer{};
  if (!body) co_return fail(body.error());
  co_return read_records(question, *body);
}

}  // namespace cairn::index
