#include "storage_caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "crypto/outboard.h"

namespace cairn::simulator {

using http::Method;
using Presence = Holdings::Presence;

Task<> StorageCaller::visit(Call call) {
  Server& server = pick_server();
  if (scenario_.phase() == Phase::calm && !has_read_all_) return get_all(call, server);
  switch (draw_visit()) {
    case 0:
      return get(call, server, pick_sample());
    case 1:
      return put(call, server);
    case 2:
      return post(call, server);
    case 3:
      return remove(call, server);
    case 4:
      return pin(call, server);
    case 5:
      return upload(call, server);
    case 6:
      return list(call, server);
    case 7:
      return prove(call, server);
    case 8:
      return put_wrong(call, server);
    case 9:
      return tend(call, server);
    default:
      return abandon(call, server);
  }
}

// Everybody puts the same object and reads it back.
Task<std::string> StorageCaller::converge_with(Call call, Server& server, unsigned step) {
  constexpr std::size_t shared = 3;
  const Sample& sample = samples()[shared];
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::string target = step == 0 ? "/healthz" : "/o/" + sample.name;
  http::ClientRequest request = make(server, step == 1 ? Method::put : Method::get, target, id);
  const Instant from = now();
  Register::Ticket ticket = 0;
  if (step == 1) {
    request.set_view(sample.bytes);
    ticket = storage_.presence(shared).begin(Holdings::present, from);
  }
  auto answer = co_await ask(call.within(Duration::seconds(3)), std::move(request));
  if (step == 1) settle(storage_.presence(shared), ticket, id, answer);
  if (!answer)
    co_return fmt::format("{}: {} ({})", target, name_of(answer.error().code), answer.error().context);
  scenario_.answered(static_cast<std::uint64_t>(answer->status));
  if (answer->status == 503) {
    (void)find_fault(*answer, Method::put, format_corr(id), false);
    if (is_fenced(*answer)) scenario_.complained_of(keeper(server));
  }
  // A delete from before the healing may come between.
  const bool fine =
      answer->status == 200 || (step == 1 && answer->status == 201) ||
      (step == 2 && answer->status == 404 && storage_.presence(shared).may_be(Holdings::absent, from, now()));
  if (!fine) co_return fmt::format("{}: {} {}", target, answer->status, answer->body);
  if (step == 2 && answer->status == 200 && answer->body != sample.bytes)
    co_return std::string("the object differs");
  co_return std::string();
}

// --- what all have in common

std::size_t StorageCaller::pick_sample(bool large) {
  if (large && below(12) == 0) return small_samples + below(large_samples);
  return below(small_samples);
}

void StorageCaller::found(std::uint32_t id, std::size_t sample, Presence what, Instant from) {
  const Server& server = keeper(*scenario_.servers()[scenario_.request(id).server]);
  if (what == Holdings::absent) hit("storage.not_found");
  if (what == Holdings::absent && storage_.may_have_forgotten(server)) return;
  if (!storage_.presence(sample).may_be(what, from, now()))
    complain(id, fmt::format("object {} ({} bytes, {}) is {}", sample, samples()[sample].bytes.size(),
                             samples()[sample].name,
                             what == Holdings::present ? "there, though it was deleted"
                                                       : "not there, though it was acknowledged"));
}

void StorageCaller::settle(Register& value, Register::Ticket ticket, std::uint32_t id,
                           const Result<Answer>& answer) {
  if (!answer) return;
  const int status = answer->status;
  // What a broken connection made the client send twice may have been done the first time.
  // One that was refused before it was begun, as most are with 429, leaves open what an earlier one did.
  const auto& request = scenario_.request(id);
  const bool twice = request.times() > 1 || (status == 429 && !request.once && request.times() > 0);
  if (status >= 200 && status < 300)
    value.done(ticket, now());
  else if (!twice && (status == 429 || status == 413 || status == 404 || status == 409 || status == 415))
    value.refused(ticket, now());
}

// As it is, in pieces, or packed.
http::ClientRequest StorageCaller::with_body(http::ClientRequest request, std::string_view bytes) {
  const std::uint64_t form = below(8);
  std::string sent(bytes);
  if (form == 0 && bytes.size() < 100'000) {
    sent = gzip(bytes);
    request.add_field("Content-Encoding", "gzip");
  }
  if (form <= 2)
    request.set_source(std::make_unique<Pieces>(machine_.slab, std::move(sent), random_.next()));
  else
    request.set_text(std::move(sent));
  return request;
}

// --- reading

Task<> StorageCaller::get(Call call, Server& server, std::size_t number) {
  const Sample& sample = samples()[number];
  const std::size_t size = sample.bytes.size();
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::uint64_t form = size == 0 ? 0 : below(10);
  const Method method = form == 1 ? Method::head : Method::get;
  http::ClientRequest request = make(server, method, "/o/" + sample.name, id);
  const auto first = static_cast<std::size_t>(size == 0 ? 0 : below(size));
  const auto count = 1 + static_cast<std::size_t>(size == 0 ? 0 : below(size - first));
  int status = 200;
  std::string_view body = method == Method::head ? std::string_view() : sample.bytes;
  std::string range;
  std::string_view second;
  if (form == 2) {
    request.add_field("Range", fmt::format("bytes={}-{}", first, first + count - 1));
    status = 206;
    body = body.substr(first, count);
    range = fmt::format("bytes {}-{}/{}", first, first + count - 1, size);
  } else if (form == 3) {
    request.add_field("Range", fmt::format("bytes=-{}", count));
    status = 206;
    body = body.substr(size - count);
    range = fmt::format("bytes {}-{}/{}", size - count, size - 1, size);
  } else if (form == 4) {
    request.add_field("Range", fmt::format("bytes={}-", size));
    status = 416;
    range = fmt::format("bytes */{}", size);
  } else if (form == 5) {
    request.add_field("If-None-Match", fmt::format("\"{}\"", sample.name));
    status = 304;
    body = {};
  } else if (form == 6) {
    request.add_field("If-Match", "\"another\"");
    status = 412;
  } else if (form == 7 && size > 10'000) {
    request.add_field("Range", fmt::format("bytes=10-99,{}-{}", size - 700, size - 1));
    status = 206;
    body = sample.bytes.substr(10, 90);
    second = sample.bytes.substr(size - 700);
  }
  const Instant from = now();
  auto answer = co_await ask(call, std::move(request));
  // An answer that was begun ends short when the object goes meanwhile, or its bytes are bad.
  if (!answer &&
      (storage_.presence(number).may_change_to(Holdings::absent, from, now()) || scenario_.plan().disk_lies))
    scenario_.request(id).fragile = true;
  const int rot = scenario_.plan().disk_lies ? 502 : 404;
  const bool whole = status == 206 && storage_.ranges_may_be_whole();
  if (!judge(id, answer, method,
             {.statuses = {status, 404, rot, whole ? 200 : status}, .queued = true, .reads_disk = true})) {
    if (!answer && answer.error().code == ErrorCode::connection_lost) hit("storage.cut_short");
    co_return;
  }
  if (answer->status == 502) {
    hit("storage.rot_502");
    co_return;
  }
  if (answer->status == 404) co_return found(id, number, Holdings::absent, from);
  found(id, number, Holdings::present, from);
  if (whole && answer->status == 200) {
    hit("gateway.whole_for_range");
    status = 200;
    body = sample.bytes;
    range.clear();
    second = {};
  }
  if (!range.empty() && answer->content_range != range)
    complain(id, "Content-Range is " + answer->content_range);
  if (answer->etag != fmt::format("\"{}\"", sample.name)) complain(id, "ETag is " + answer->etag);
  if (status == 304) hit("storage.not_modified");
  if (status == 416 || status == 412) co_return;
  if (!second.empty()) {
    hit("storage.got_many");
    const std::size_t at = answer->body.find(body);
    if (at == std::string::npos || answer->body.find(second, at + body.size()) == std::string::npos)
      complain(id, "the ranges of the object differ");
    co_return;
  }
  hit(status == 206 ? io::sim::Tag("storage.got_range") : io::sim::Tag("storage.got"));
  if (answer->body != body)
    complain(id, fmt::format("{} bytes were sent, {} expected, and they differ", answer->body.size(),
                             body.size()));
}

// Once in good times: all that there should be.
Task<> StorageCaller::get_all(Call call, Server& server) {
  has_read_all_ = true;
  for (std::size_t i = number_; i < samples().size(); i += scenario_.plan().visitors) {
    co_await get(call, server, i);
    if (call.stopped()) co_return;
  }
}

Task<> StorageCaller::list(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const Instant from = now();
  auto answer = co_await ask(call, make(server, Method::get, "/o?limit=1000", id));
  if (!judge(id, answer, Method::get, {.statuses = {200}, .queued = true, .reads_disk = true})) co_return;
  hit("storage.listed");
  if (scenario_.plan().disk_lies) co_return;
  std::size_t before = 0;
  std::vector<std::size_t> order(samples().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [](std::size_t a, std::size_t b) { return samples()[a].name < samples()[b].name; });
  for (const std::size_t i : order) {
    const std::size_t at = answer->body.find(
        fmt::format("\"address\":\"{}\",\"size\":{},", samples()[i].name, samples()[i].bytes.size()));
    const bool there = at != std::string::npos;
    if (there && at < before) complain(id, "the list is not in order");
    if (there) before = at;
    found(id, i, there ? Holdings::present : Holdings::absent, from);
  }
}

Task<> StorageCaller::prove(Call call, Server& server) {
  const std::size_t number = pick_sample();
  const Sample& sample = samples()[number];
  const std::uint64_t size = sample.bytes.size();
  const std::uint64_t first = size == 0 ? 0 : below(size);
  const std::uint64_t last = size == 0 ? 0 : first + below(size - first);
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const Instant from = now();
  auto answer = co_await ask(
      call, make(server, Method::get, fmt::format("/o/{}/proof?range={}-{}", sample.name, first, last), id));
  if (!answer &&
      (storage_.presence(number).may_change_to(Holdings::absent, from, now()) || scenario_.plan().disk_lies))
    scenario_.request(id).fragile = true;
  const int rot = scenario_.plan().disk_lies ? 502 : 404;
  if (!judge(id, answer, Method::get, {.statuses = {200, 404, rot}, .queued = true, .reads_disk = true}))
    co_return;
  if (answer->status == 502) co_return;
  if (answer->status == 404) co_return found(id, number, Holdings::absent, from);
  found(id, number, Holdings::present, from);
  hit("storage.proved");
  std::uint64_t said = 0;
  if (answer->body.size() >= sizeof said) std::memcpy(&said, answer->body.data(), sizeof said);
  if (answer->body.size() != crypto::proof_size(size, first, last) || said != size)
    complain(id, fmt::format("a proof of {} bytes over {}", answer->body.size(), said));
}

Task<> StorageCaller::tend(Call call, Server& server) {
  const bool scrub = below(2) == 0;
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const Method method = scrub ? Method::post : Method::get;
  auto answer = co_await ask(call, make(server, method, scrub ? "/admin/scrub" : "/admin/status", id));
  if (!judge(id, answer, method, {.statuses = {scrub ? 202 : 200}, .queued = true})) co_return;
  if (scrub) hit("storage.scrubbed");
  if (!scrub && !answer->body.starts_with("{\"objects\":")) complain(id, "the status is " + answer->body);
}

// Leaves while it is being served.
Task<> StorageCaller::abandon(Call call, Server& server) {
  const std::size_t number = small_samples + below(large_samples);
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  scenario_.request(id).fragile = true;
  if (below(2) == 0) {
    http::ClientRequest request = make(server, Method::put, "/o/" + samples()[number].name, id);
    request.set_view(samples()[number].bytes);
    // Nobody hears the answer: it is there from now on, or not.
    (void)storage_.presence(number).begin(Holdings::present, now());
    (void)co_await ask(call.within(Duration::millis(between(1, 60))), std::move(request));
    co_return;
  }
  auto arriving = co_await begin(call, make(server, Method::get, "/o/" + samples()[number].name, id));
  if (!arriving) co_return;
  (void)co_await (*arriving)->next(call);
}

// --- changing

Task<> StorageCaller::put(Call call, Server& server) {
  const std::size_t number = pick_sample();
  const Sample& sample = samples()[number];
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  http::ClientRequest request = with_body(make(server, Method::put, "/o/" + sample.name, id), sample.bytes);
  Register& value = storage_.presence(number);
  const Instant from = now();
  const Register::Ticket ticket = value.begin(Holdings::present, from);
  auto answer = co_await ask(call, std::move(request));
  settle(value, ticket, id, answer);
  // By all the limits there were meanwhile.
  const auto length = static_cast<std::int64_t>(sample.bytes.size());
  const int large = length > server.least().body ? 413 : 201;
  if (!judge(id, answer, Method::put,
             {.statuses = {200, 201, large}, .queued = true, .reads_disk = true, .writes_disk = true}))
    co_return;
  if (answer->status == 413) {
    hit("sim.413");
    co_return;
  }
  if (length > static_cast<std::int64_t>(crypto::part_size)) hit("storage.put_large");
  hit(answer->status == 201 ? io::sim::Tag("storage.put_new") : io::sim::Tag("storage.put_known"));
  if (answer->body.find(sample.name) == std::string::npos) complain(id, "stored as " + answer->body);
}

// Under the address of another one.
Task<> StorageCaller::put_wrong(Call call, Server& server) {
  const std::size_t number = pick_sample(), other = (number + 1) % samples().size();
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  http::ClientRequest request =
      with_body(make(server, Method::put, "/o/" + samples()[other].name, id), samples()[number].bytes);
  auto answer = co_await ask(call, std::move(request));
  const auto length = static_cast<std::int64_t>(samples()[number].bytes.size());
  const int large = length > server.least().body ? 413 : 409;
  if (judge(id, answer, Method::put,
            {.statuses = {409, large}, .queued = true, .reads_disk = true, .writes_disk = true}) &&
      answer->status == 409)
    hit("storage.put_wrong");
}

Task<> StorageCaller::post(Call call, Server& server) {
  const std::size_t number = pick_sample(false);
  const Sample& sample = samples()[number];
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  http::ClientRequest request = with_body(make(server, Method::post, "/o", id), sample.bytes);
  Register& value = storage_.presence(number);
  const Register::Ticket ticket = value.begin(Holdings::present, now());
  auto answer = co_await ask(call, std::move(request));
  settle(value, ticket, id, answer);
  const auto length = static_cast<std::int64_t>(sample.bytes.size());
  const int large = length > server.least().body ? 413 : 201;
  if (!judge(id, answer, Method::post,
             {.statuses = {200, 201, large}, .queued = true, .reads_disk = true, .writes_disk = true}) ||
      answer->status == 413)
    co_return;
  hit("storage.posted");
  if (answer->body != fmt::format("{{\"address\":\"{}\",\"size\":{}}}", sample.name, sample.bytes.size()))
    complain(id, "stored as " + answer->body);
}

Task<> StorageCaller::remove(Call call, Server& server) {
  const std::size_t number = pick_sample();
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  Register& value = storage_.presence(number);
  const Instant from = now();
  const Register::Ticket ticket = value.begin(Holdings::absent, from);
  auto answer = co_await ask(call, make(server, Method::del, "/o/" + samples()[number].name, id));
  settle(value, ticket, id, answer);
  if (!judge(id, answer, Method::del,
             {.statuses = {204, 404, 409}, .queued = true, .reads_disk = true, .writes_disk = true}))
    co_return;
  if (answer->status == 404) co_return found(id, number, Holdings::absent, from);
  const bool held = answer->status == 409;
  if (held && answer->code != ErrorCode::pinned) complain(id, "not deleted: " + answer->message);
  hit(held ? io::sim::Tag("storage.pin_refused") : io::sim::Tag("storage.deleted"));
  found(id, number, Holdings::present, from);
  if (scenario_.plan().disk_lies) co_return;
  if (!storage_.pin(number).may_be(held ? Holdings::pinned : Holdings::loose, from, now()))
    complain(id, held ? "it is said to be pinned, and is not" : "it was deleted, though it was pinned");
}

Task<> StorageCaller::pin(Call call, Server& server) {
  const std::size_t number = below(3) == 0 ? pick_sample() : below(8);
  const bool on = below(2) == 0;
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const Method method = on ? Method::put : Method::del;
  Register& value = storage_.pin(number);
  const Instant from = now();
  const Register::Ticket ticket = value.begin(on ? Holdings::pinned : Holdings::loose, from);
  auto answer = co_await ask(call, make(server, method, "/pins/" + samples()[number].name, id));
  settle(value, ticket, id, answer);
  const int rot = scenario_.plan().disk_lies ? 502 : 404;
  if (!judge(id, answer, method,
             {.statuses = {204, 404, rot}, .queued = true, .reads_disk = true, .writes_disk = true}) ||
      answer->status == 502)
    co_return;
  if (answer->status == 404) co_return found(id, number, Holdings::absent, from);
  hit("storage.pinned");
  found(id, number, Holdings::present, from);
}

}  // namespace cairn::simulator
