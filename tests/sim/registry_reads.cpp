// Reading and following: everybody is told the same.
#include <fmt/format.h>

#include "client/registry_answer.h"
#include "crypto/signed_note.h"
#include "http/sse_parser.h"
#include "registry_caller.h"
#include "runtime/wait.h"

namespace cairn::simulator {

using client::RegistryHead;
using http::Method;

namespace {

// How long a shard may take to hear of what another one has answered, in good times.
constexpr Duration hearsay = Duration::millis(300);

}  // namespace

void RegistryCaller::must_be_newest(std::uint32_t id, std::uint64_t version) {
  const Request& request = scenario_.request(id);
  const bool calm = scenario_.was_calm(request);
  const Instant before = calm ? Instant{request.issued.ns - hearsay.ns} : Instant{-1};
  const std::uint64_t least = registry_.witness().least(before, request.life);
  if (version < least) complain(id, fmt::format("the head is {}, {} was told before", version, least));
}

Task<> RegistryCaller::read_head(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call, make(server, Method::get, "/registry/head", id));
  if (!judge(id, answer, Method::get, {.statuses = {200}})) co_return;
  RegistryHead head;
  if (told(id, answer->body, head)) must_be_newest(id, head.version);
}

Task<> RegistryCaller::poll(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::uint64_t after = registry_.witness().newest();
  const std::int64_t wait = between(1, 3);
  const Instant from = now();
  auto answer = co_await ask(
      call, make(server, Method::get, fmt::format("/registry/head?after={}&wait={}s", after, wait), id));
  if (!judge(id, answer, Method::get, {.statuses = {200}, .queued = true})) co_return;
  RegistryHead head;
  if (!told(id, answer->body, head)) co_return;
  must_be_newest(id, head.version);
  hit(head.version > after ? io::sim::Tag("registry.poll_told") : io::sim::Tag("registry.poll_over"));
  if (head.version <= after && now() - from < Duration::seconds(wait) && scenario_.last_drain() < from)
    complain(id, fmt::format("told of version {} after {} ms", head.version, (now() - from).to_millis()));
}

Task<> RegistryCaller::follow(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  scenario_.request(id).fragile = true;
  http::ClientRequest request = make(server, Method::get, "/registry/stream", id);
  const bool resumed = seen_ && below(3) != 0;
  std::optional<std::uint64_t> next;
  if (resumed) {
    next = *seen_ + 1;
    request.add_field("Last-Event-ID", fmt::format("{}", *seen_));
  }
  const bool slow = below(4) == 0;
  std::size_t events = 0;
  {
    auto arriving = co_await begin(call, std::move(request));
    if (!arriving) co_return;
    if ((*arriving)->head.status != 200) {
      Result<Answer> answer = co_await finish(call, arriving->get());
      if (!answer) co_return;
      (void)judge(id, answer, Method::get, {.statuses = {}, .queued = true});
      co_return;
    }
    http::SseParser parser;
    for (;;) {
      if (slow && !co_await sleep_for(call, Duration::millis(between(100, 2500)))) break;
      auto slice = co_await (*arriving)->next(call);
      if (!slice) break;
      if (slice->empty()) {
        hit("registry.stream_ended");
        break;
      }
      std::string_view bytes = *slice;
      for (;;) {
        const auto whole = parser.next(bytes);
        if (!whole) co_return complain(id, "the stream is malformed");
        if (!*whole) break;
        const http::SseEvent& event = parser.event();
        ++events;
        std::string_view data = event.data;
        const bool lagged = event.event == "lagged";
        if (lagged) {
          hit("registry.lagged");
          const std::size_t at = data.find("\"head\":");
          if (at == std::string_view::npos) co_return complain(id, "a lag without a head: " + event.data);
          data = data.substr(at + 7, data.size() - at - 8);
        } else if (event.event != "head") {
          co_return complain(id, "an event of kind " + event.event);
        }
        RegistryHead head;
        if (!told(id, data, head)) co_return;
        if (event.id != std::to_string(head.version)) complain(id, "an event with id " + event.id);
        if (!lagged && next && head.version != *next)
          complain(id, fmt::format("the stream goes on with {}, {} was next", head.version, *next));
        if (lagged && next && head.version < *next)
          complain(id, fmt::format("the stream lags back to {}, {} was next", head.version, *next));
        if (!next && !lagged) must_be_newest(id, head.version);
        next = head.version + 1;
        seen_ = head.version;
        scenario_.answered(head.version);
        hit(resumed ? io::sim::Tag("registry.resumed") : io::sim::Tag("registry.followed"));
      }
    }
  }
  // In good times nothing is held back.
  if (!scenario_.was_calm(scenario_.request(id)) || slow ||
      scenario_.last_drain() >= scenario_.request(id).issued || server.least().few_connections())
    co_return;
  const std::uint64_t least = registry_.witness().least(Instant{now().ns - 2 * hearsay.ns}, 0);
  if (!next || *next <= least)
    complain(id, fmt::format("after {} events the stream is at {}, {} was told elsewhere", events,
                             next ? *next - 1 : 0, least));
}

Task<> RegistryCaller::read_version(Call call, Server& server) {
  const std::uint64_t newest = registry_.witness().newest();
  const std::uint64_t version = below(8) == 0 ? newest + 1 + below(3) : below(newest + 1);
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call, make(server, Method::get, fmt::format("/registry/{}", version), id));
  if (!judge(id, answer, Method::get, {.statuses = {200, 404, 410}, .queued = true, .reads_disk = true}))
    co_return;
  if (answer->status == 404) {
    hit("registry.not_yet");
    if (registry_.witness().told().contains(version) && version <= newest)
      complain(id, fmt::format("version {} is not there, though it was told", version));
    co_return;
  }
  if (answer->status == 410) {
    hit("registry.pruned");
    if (!registry_.prunes()) complain(id, "pruned, though everything is kept");
    co_return;
  }
  codec::JsonReader reader;
  const auto root = reader.parse(answer->body);
  const auto parsed = root ? client::parse_version(*root) : fail(root.error());
  if (!parsed) co_return complain(id, fmt::format("version {}: {}", version, parsed.error().context));
  hit("registry.read_version");
  if (!told(id, parsed->head)) co_return;
  const auto& told = registry_.witness().told();
  const auto before = version == 0 ? told.end() : told.find(version - 1);
  if (parsed->head.version != version) complain(id, fmt::format("version {} was sent", parsed->head.version));
  if (before != told.end() && parsed->commit.prev != before->second.head.commit_b3)
    complain(id, fmt::format("version {} does not follow the one before it", version));
}

Task<> RegistryCaller::read_log(Call call, Server& server, std::uint64_t from) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(
      call, make(server, Method::get, fmt::format("/registry/log?from={}&limit=1000", from), id));
  if (!judge(id, answer, Method::get, {.statuses = {200, 410}})) co_return;
  if (answer->status == 410) {
    if (!registry_.prunes()) complain(id, "pruned, though everything is kept");
    co_return;
  }
  codec::JsonReader reader;
  const auto root = reader.parse(answer->body);
  const auto heads = root ? client::parse_heads(*root) : fail(root.error());
  if (!heads) co_return complain(id, "the log is " + answer->body.substr(0, 200));
  hit("registry.read_log");
  std::uint64_t next = from;
  for (const RegistryHead& head : *heads) {
    if (head.version != next++)
      co_return complain(id, fmt::format("the log has {} where {} belongs", head.version, next - 1));
    if (!told(id, head)) co_return;
  }
  if (next > from) must_be_newest(id, next - 1);
}

Task<> RegistryCaller::read_checkpoint(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const auto& roots = registry_.witness().roots();
  const std::uint64_t largest = roots.empty() ? 0 : roots.rbegin()->first;
  auto answer = co_await ask(call, make(server, Method::get, "/registry/checkpoint", id));
  if (answer && answer->status == 503) {
    Answer copy = *answer;
    (void)find_fault(copy, Method::get, format_corr(id), false);
    // The first one comes a moment after the first start.
    if (copy.message == "the first checkpoint is not signed yet" && registry_.witness().roots().empty())
      co_return;
  }
  if (!judge(id, answer, Method::get, {.statuses = {200}})) co_return;
  const registry::Founding& founding = registry_.founding();
  const auto verifier = crypto::parse_verifier_key(founding.roots.log_key);
  const auto note = crypto::parse_note(answer->body);
  const auto parsed = note ? crypto::parse_checkpoint(note->text) : fail(note.error());
  if (!parsed || !crypto::is_signed_by(*note, *verifier) ||
      parsed->origin != format_address(founding.roots.genesis_payload_b3))
    co_return complain(id, "the checkpoint is " + answer->body);
  hit("registry.checkpoint");
  const std::string wrong = registry_.witness().take_root(parsed->size, parsed->root);
  if (!wrong.empty()) complain(id, wrong);
  if (parsed->size < largest)
    complain(id, fmt::format("the checkpoint has size {}, {} was told before", parsed->size, largest));
}

// That a later tree begins with an earlier one.
Task<> RegistryCaller::prove(Call call, Server& server) {
  const auto& roots = registry_.witness().roots();
  if (roots.empty()) co_return;
  auto pick = [&] { return std::next(roots.begin(), static_cast<std::ptrdiff_t>(below(roots.size()))); };
  auto from = pick(), to = pick();
  if (from->first > to->first) std::swap(from, to);
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(
      call, make(server, Method::get,
                 fmt::format("/registry/proof/consistency?from={}&to={}", from->first, to->first), id));
  if (!judge(id, answer, Method::get, {.statuses = {200}})) co_return;
  codec::JsonReader reader;
  const auto root = reader.parse(answer->body);
  const auto hashes = root ? client::parse_hashes(*root) : fail(root.error());
  if (!hashes || !crypto::verify_consistency(from->first, to->first, *hashes, from->second, to->second))
    co_return complain(id,
                       fmt::format("the tree of {} does not begin with that of {}", to->first, from->first));
  hit("registry.consistent");
}

}  // namespace cairn::simulator
