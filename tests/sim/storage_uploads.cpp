// Uploads in parts, each by one client: what it was told of them must hold.
#include <fmt/format.h>

#include <charconv>

#include "crypto/outboard.h"
#include "storage_caller.h"

namespace cairn::simulator {
namespace {

using http::Method;

// "a-b,c-d": the first bytes of what is missing.
std::vector<std::pair<std::uint64_t, std::uint64_t>> parse_gaps(std::string_view text) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::pair<std::uint64_t, std::uint64_t> gap;
    at = std::from_chars(at, end, gap.first).ptr + 1;
    if (at >= end) break;
    at = std::from_chars(at, end, gap.second).ptr + 1;
    gaps.push_back(gap);
  }
  return gaps;
}

std::string_view part_of(const Sample& sample, std::uint64_t index) {
  return sample.bytes.substr(index * crypto::part_size, crypto::part_size);
}

}  // namespace

// One step of one of them.
Task<> StorageCaller::upload(Call call, Server& server) {
  if (uploads_.empty() || (uploads_.size() < 3 && below(4) == 0)) return begin_upload(call, server);
  Upload& upload = uploads_[below(uploads_.size())];
  const std::uint64_t parts = crypto::part_count(samples()[upload.sample].bytes.size());
  if (upload.parts.size() < parts && below(8) != 0) return send_part(call, server, upload);
  switch (below(8)) {
    case 0:
      return abort_upload(call, server, upload);
    case 1:
    case 2:
      return look_at_upload(call, server, upload);
    default:
      return commit_upload(call, server, upload);
  }
}

bool StorageCaller::is_gone(std::uint32_t id, Upload& upload, const Answer& answer) {
  if (answer.status != 404) return false;
  const Server& server = keeper(*scenario_.servers()[scenario_.request(id).server]);
  const bool expires = storage_.options().uploads_ttl < Duration::seconds(3600);
  if (!upload.may_be_gone && !expires && !storage_.may_have_forgotten(keeper(server)))
    complain(id, "an upload that was begun is not there");
  std::erase_if(uploads_, [name = upload.id](const Upload& one) { return one.id == name; });
  return true;
}

Task<> StorageCaller::begin_upload(Call call, Server& server) {
  std::size_t number = 0;
  do number = below(3) == 0 ? small_samples + below(large_samples) : pick_sample();
  while (samples()[number].bytes.empty());
  const Sample& sample = samples()[number];
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  http::ClientRequest request = make(server, Method::post, "/uploads", id);
  if (below(2) == 0) request.set_text(fmt::format("{{\"size\":{}}}", sample.bytes.size()));
  auto answer = co_await ask(call, std::move(request));
  if (!judge(id, answer, Method::post,
             {.statuses = {201}, .queued = true, .reads_disk = true, .writes_disk = true}))
    co_return;
  hit("storage.upload_begun");
  constexpr std::string_view before = "{\"id\":\"";
  if (!answer->body.starts_with(before) || answer->body.size() < before.size() + 26)
    co_return complain(id, "an upload is begun with " + answer->body);
  uploads_.push_back({answer->body.substr(before.size(), 26), number, {}});
}

Task<> StorageCaller::send_part(Call call, Server& server, Upload& upload) {
  const Sample& sample = samples()[upload.sample];
  const std::uint64_t index = below(crypto::part_count(sample.bytes.size()));
  const std::string_view bytes = part_of(sample, index);
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  http::ClientRequest request = make(server, Method::patch, "/uploads/" + upload.id, id);
  request.add_field("Upload-Offset", fmt::format("{}", index * crypto::part_size));
  request.repeatable = true;
  auto answer = co_await ask(call, with_body(std::move(request), bytes));
  const int large = static_cast<std::int64_t>(bytes.size()) > server.least().body ? 413 : 204;
  if (!judge(id, answer, Method::patch,
             {.statuses = {204, 404, large}, .queued = true, .reads_disk = true, .writes_disk = true}) ||
      is_gone(id, upload, *answer) || answer->status == 413)
    co_return;
  hit("storage.upload_part");
  upload.parts.insert(index);
}

Task<> StorageCaller::look_at_upload(Call call, Server& server, Upload& upload) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call, make(server, Method::head, "/uploads/" + upload.id, id));
  if (!judge(id, answer, Method::head, {.statuses = {200, 404}, .queued = true, .reads_disk = true}) ||
      is_gone(id, upload, *answer))
    co_return;
  hit("storage.upload_seen");
  if (upload.may_be_gone) co_return;
  const auto gaps = parse_gaps(answer->upload_missing);
  for (const std::uint64_t part : upload.parts)
    for (const auto& [first, last] : gaps)
      if (first / crypto::part_size <= part && part <= last / crypto::part_size &&
          !storage_.may_have_forgotten(keeper(server)))
        complain(id, fmt::format("part {} is missing ({}), though it was acknowledged", part,
                                 answer->upload_missing));
}

Task<> StorageCaller::commit_upload(Call call, Server& server, Upload& upload) {
  const std::size_t number = upload.sample;
  const Sample& sample = samples()[number];
  const bool whole = upload.parts.size() == crypto::part_count(sample.bytes.size());
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  http::ClientRequest request = make(server, Method::post, fmt::format("/uploads/{}/commit", upload.id), id);
  // Without a size and an address, a prefix would become another object.
  request.set_text(fmt::format("{{\"address\":\"{}\"}}", sample.name));
  Register& value = storage_.presence(number);
  const Register::Ticket ticket = value.begin(Holdings::present, now());
  const bool was_sure = !upload.may_be_gone;
  upload.may_be_gone = true;
  auto answer = co_await ask(call, std::move(request));
  settle(value, ticket, id, answer);
  if (!judge(id, answer, Method::post,
             {.statuses = {200, 201, 404, 409}, .queued = true, .reads_disk = true, .writes_disk = true})) {
    if (answer && answer->status == 429) upload.may_be_gone = !was_sure;
    co_return;
  }
  if (answer->status == 409) {
    upload.may_be_gone = !was_sure;
    hit("storage.upload_gap");
    if (whole && !storage_.may_have_forgotten(keeper(server)))
      complain(id, "every part was acknowledged, yet: " + answer->message);
    co_return;
  }
  if (answer->status == 404) upload.may_be_gone = !was_sure;
  if (is_gone(id, upload, *answer)) co_return;
  hit("storage.upload_committed");
  if (answer->body.find(sample.name) == std::string::npos) complain(id, "committed as " + answer->body);
  std::erase_if(uploads_, [name = upload.id](const Upload& one) { return one.id == name; });
}

Task<> StorageCaller::abort_upload(Call call, Server& server, Upload& upload) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  upload.may_be_gone = true;
  auto answer = co_await ask(call, make(server, Method::del, "/uploads/" + upload.id, id));
  if (!judge(id, answer, Method::del,
             {.statuses = {204, 404}, .queued = true, .reads_disk = true, .writes_disk = true}) ||
      is_gone(id, upload, *answer))
    co_return;
  hit("storage.upload_aborted");
  std::erase_if(uploads_, [name = upload.id](const Upload& one) { return one.id == name; });
}

}  // namespace cairn::simulator
