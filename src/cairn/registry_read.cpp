// `cairn registry head`, `log`, `show`, `follow` and `audit`: reading the registry.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "cairn/local_files.h"
#include "cairn/registry_print.h"
#include "cairn/registry_words.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/base64.h"
#include "runtime/wait.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::FollowEvent;
using client::Outcome;
using client::RegistryHead;
using client::RegistryProposal;
using client::RegistryVersion;

constexpr std::uint64_t log_page = 1000;

// The failure when the caller names a version as seen that the registry does not have.
Failure went_back(std::uint64_t seen, std::uint64_t head) {
  return Failure(
      ErrorCode::integrity,
      fmt::format("version {} is not there: the head is version {}. If it was there, the registry was "
                  "rolled back",
                  seen, head),
      Side::upstream);
}

Task<Exit> tell_head(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  const auto after = read_number(session->invocation, "after", 0);
  auto head = co_await session->registry->head(call);
  if (!head) co_return complain(terminal, head.error());
  if (session->invocation.has("wait")) {
    const std::uint64_t than = session->invocation.has("after") ? *after : head->version;
    if (head->version < than) co_return complain(terminal, went_back(than, head->version));
    while (head->version <= than) {
      auto next = co_await session->registry->head_after(call, than, Duration::seconds(25));
      if (!next) co_return complain(terminal, next.error());
      if (!*next) continue;
      const auto grown = co_await session->registry->check_grown(call, *head, **next);
      if (!grown) co_return complain(terminal, grown.error());
      head = **next;
    }
  }
  print_head(terminal, *head);
  co_return Exit::ok;
}

// Every head from `from` on, at most `limit`, page by page.
Task<Outcome<bool>> print_log(Call call, Session* session, std::uint64_t from, std::uint64_t limit,
                              std::optional<RegistryHead>* last) {
  while (limit > 0) {
    CO_TRY(const std::vector<RegistryHead> heads,
           co_await session->registry->log(call, from, std::min(limit, log_page)));
    if (heads.empty()) break;
    for (const RegistryHead& head : heads) {
      if (limit == 0) break;
      if (!print_head(session->terminal, head)) co_return false;
      *last = head;
      --limit;
    }
    from = heads.back().version + 1;
  }
  co_return true;
}

// The first version that is still listed, between one that is pruned and the head.
Task<Outcome<std::uint64_t>> find_first_kept(Call call, Session* session, std::uint64_t pruned,
                                             std::uint64_t head) {
  std::uint64_t low = pruned + 1, high = head;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    auto there = co_await session->registry->log(call, middle, 1);
    if (there)
      high = middle;
    else if (there.error().code() == ErrorCode::pruned)
      low = middle + 1;
    else
      co_return fail(std::move(there.error()));
  }
  co_return low;
}

void write_approvals(const std::vector<format::Approval>& approvals, codec::JsonWriter& json) {
  json.key("approvals").begin_array();
  for (const format::Approval& one : approvals) format::write_approval_json(one, json);
  json.end_array();
}

// `set`: the proposed set, if it was asked for.
void print_proposal(const Terminal& terminal, const RegistryProposal& proposal,
                    const format::DescriptorSet* set = nullptr) {
  std::string who;
  for (const format::Approval& one : proposal.approvals) who += (who.empty() ? "" : ",") + one.signer_id;
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("proposal_id", proposal.id).field("version", proposal.version);
    json.field("prev", format_address(proposal.prev))
        .field("payload_b3", format_address(proposal.payload_b3));
    json.field("expires_at", format_rfc3339(proposal.expires_at));
    if (set != nullptr && set->supersede_of) json.field("supersedes", *set->supersede_of);
    write_approvals(proposal.approvals, json);
    if (set != nullptr) {
      json.key("payload");
      format::write_set_json(*set, json);
    }
    json.end_object().finish();
    terminal.line(text);
  } else if (terminal.quiet()) {
    terminal.line(proposal.id);
  } else {
    terminal.line(fmt::format("{}  version {}  until {}  {}", proposal.id, proposal.version,
                              format_rfc3339(proposal.expires_at),
                              who.empty() ? "not approved yet" : "approved by " + printable(who)));
    if (set == nullptr) return;
    // The time above is the proposal's own; this one is that of the version that it would become.
    if (set->expiry) terminal.line(fmt::format("{:<13} {}", "expiry", format_rfc3339(*set->expiry)));
    if (set->supersede_of) terminal.line(fmt::format("{:<13} {}", "supersedes", *set->supersede_of));
    if (set->reason) terminal.line(fmt::format("{:<13} {}", "reason", printable(*set->reason)));
    terminal.line(fmt::format("{:<13} {}", "payload_b3", format_address(proposal.payload_b3)));
  }
}

Task<Exit> tell_log(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  if (session->invocation.has("pending")) {
    std::string after;
    do {
      auto page = co_await session->registry->proposals(call, after);
      if (!page) co_return complain(terminal, page.error());
      for (const RegistryProposal& one : page->proposals) print_proposal(terminal, one);
      after = std::move(page->next);
    } while (!after.empty());
    co_return Exit::ok;
  }
  const std::uint64_t limit = *read_number(session->invocation, "limit", 50);
  std::uint64_t from = *read_number(session->invocation, "from", 0);
  if (!session->invocation.has("from")) {
    const auto head = co_await session->registry->head(call);
    if (!head) co_return complain(terminal, head.error());
    from = head->version + 1 > limit ? head->version + 1 - limit : 0;
    const auto there = co_await session->registry->log(call, from, 1);
    if (!there && there.error().code() == ErrorCode::pruned) {
      const auto kept = co_await find_first_kept(call, session, from, head->version);
      if (!kept) co_return complain(terminal, kept.error());
      from = *kept;
    }
  }
  std::optional<RegistryHead> last;
  const auto printed = co_await print_log(call, session, from, limit, &last);
  if (!printed) co_return complain(terminal, printed.error());
  co_return Exit::ok;
}

void print_version(const Terminal& terminal, const RegistryVersion& version) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object();
    write_head_fields(version.head, json);
    json.field("prev", format_address(version.commit.prev));
    if (version.supersedes) json.field("supersedes", *version.supersedes);
    write_approvals(version.commit.approvals, json);
    json.key("payload");
    format::write_set_json(version.set, json);
    json.end_object().finish();
    terminal.line(text);
    return;
  }
  const auto row = [&](std::string_view name, std::string_view value) {
    if (!terminal.quiet()) terminal.line(fmt::format("{:<13} {}", name, value));
  };
  row("version", fmt::format("{}{}", version.head.version, version.head.superseded ? " (superseded)" : ""));
  row("commit_b3", format_address(version.head.commit_b3));
  row("payload_b3", format_address(version.head.payload_b3));
  row("prev", format_address(version.commit.prev));
  row("committed_at", format_rfc3339(version.head.committed_at));
  if (version.set.expiry) row("expiry", format_rfc3339(*version.set.expiry));
  if (version.supersedes) row("supersedes", fmt::format("{}", *version.supersedes));
  if (version.set.reason) row("reason", printable(*version.set.reason));
  for (const format::Approval& one : version.commit.approvals)
    row("approved by", fmt::format("{} at {}", printable(one.signer_id), format_rfc3339(one.signed_at)));
  for (const std::string& item : version.set.items) terminal.line(printable(item_json(item)));
}

Exit keep_payload(const Session& session, const std::string& payload) {
  const auto to = session.invocation.find("output");
  if (!to) return Exit::ok;
  const auto written = write_whole(std::string(*to), payload);
  if (!written) return complain(session.terminal, written.error());
  session.terminal.say(fmt::format("payload in {}", *to));
  return Exit::ok;
}

Task<Exit> show_proposal(Call call, Session* session, std::string id) {
  const auto proposal = co_await session->registry->proposal(call, std::move(id));
  if (!proposal) co_return complain(session->terminal, proposal.error());
  const auto set = format::decode_descriptor_set(as_bytes(proposal->payload));
  if (!set)
    co_return complain(session->terminal,
                       Failure(ErrorCode::integrity, "the proposal's payload is not a descriptor set"));
  print_proposal(session->terminal, *proposal, &*set);
  if (!session->terminal.json())
    for (const std::string& item : set->items) session->terminal.line(printable(item_json(item)));
  co_return keep_payload(*session, proposal->payload);
}

Task<Exit> show(Call call, Session* session) {
  const std::string& which = session->invocation.arguments[0];
  if (client::is_proposal_id(which)) co_return co_await show_proposal(call, session, which);
  std::uint64_t number = 0;
  if (which == "head") {
    const auto head = co_await session->registry->head(call);
    if (!head) co_return complain(session->terminal, head.error());
    number = head->version;
  } else {
    number = *parse_version_number(which);
  }
  const auto version = co_await session->registry->version(call, number);
  if (!version) co_return complain(session->terminal, version.error(), fmt::format("version {}", number));
  print_version(session->terminal, *version);
  co_return keep_payload(*session, version->payload);
}

// `lost`: an outage is reported once.
bool take_event(const Terminal& terminal, const FollowEvent& event, bool& lost) {
  const bool told = std::exchange(lost, event.kind == FollowEvent::Kind::lost);
  switch (event.kind) {
    case FollowEvent::Kind::head: {
      const bool read = print_head(terminal, *event.head);
      return read && flush_result();
    }
    case FollowEvent::Kind::lagged:
      terminal.warn(fmt::format("{} heads were missed; cairn registry log lists them", event.missed));
      return !event.head || (print_head(terminal, *event.head) && flush_result());
    case FollowEvent::Kind::lost:
      if (!told)
        terminal.warn(fmt::format("the connection is gone ({}); trying again", printable(event.why)));
      return true;
  }
  return true;
}

Task<Exit> follow(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  std::optional<RegistryHead> last;
  if (session->invocation.has("from")) {
    const std::uint64_t from = *read_number(session->invocation, "from", 0);
    const auto printed = co_await print_log(call, session, from, ~std::uint64_t{0}, &last);
    if (!printed) co_return complain(terminal, printed.error());
    if (!*printed) co_return Exit::ok;
    if (!last) {
      const auto head = co_await session->registry->head(call);
      if (!head) co_return complain(terminal, head.error());
      if (head->version + 1 < from) co_return complain(terminal, went_back(from - 1, head->version));
      last = *head;
    }
  } else {
    const auto head = co_await session->registry->head(call);
    if (!head) co_return complain(terminal, head.error());
    print_head(terminal, *head);
    last = *head;
  }
  if (!flush_result()) co_return Exit::ok;
  bool lost = false;
  const auto ended = co_await session->registry->follow(
      call, last, [&](const FollowEvent& event) { return take_event(terminal, event, lost); });
  if (!ended && call.stopped()) co_return Exit::interrupted;
  if (!ended) co_return complain(terminal, ended.error());
  co_return Exit::ok;
}

bool print_event(const Terminal& terminal, const client::AuditEvent& event) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("sequence", event.sequence).field("at", format_rfc3339(event.at));
    json.field("op", event.op).field("code", event.code).field("count", event.count);
    if (!event.who.empty()) json.field("who", event.who);
    if (!event.proposal_id.empty()) json.field("proposal_id", event.proposal_id);
    if (event.hash) json.field("hash", format_address(*event.hash));
    json.end_object().finish();
    return terminal.line(text);
  }
  std::string line = fmt::format("{:>6}  {}  {:<9}  {:<18}", event.sequence, format_rfc3339(event.at),
                                 printable(event.op), printable(event.code));
  if (event.count > 1) line += fmt::format("  {} times", event.count);
  if (!event.who.empty()) line += "  by " + printable(event.who);
  if (!event.proposal_id.empty()) line += "  " + printable(event.proposal_id);
  return terminal.line(line);
}

Task<Exit> tell_audit(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  std::uint64_t left = *read_number(session->invocation, "limit", 50);
  std::optional<std::uint64_t> after;
  if (session->invocation.has("after")) after = *read_number(session->invocation, "after", 0);
  // More than one page of the newest events: the first page begins so many events before the newest.
  if (!after && left > log_page) {
    const auto newest = co_await session->registry->audit(call, after, 1);
    if (!newest) co_return complain(terminal, newest.error());
    const std::uint64_t last = newest->events.empty() ? 0 : newest->events.back().sequence;
    after = last - std::min(last, left);
  }
  while (left > 0) {
    const auto page = co_await session->registry->audit(call, after, std::min(left, log_page));
    if (!page) co_return complain(terminal, page.error());
    for (const client::AuditEvent& event : page->events) {
      if (left == 0) break;
      if (!print_event(terminal, event)) co_return Exit::ok;
      --left;
    }
    if (!page->next) break;
    after = page->next;
  }
  co_return Exit::ok;
}

// Numbers are checked before the server is asked.
int with_numbers(const Invocation& invocation, std::initializer_list<std::string_view> flags, Work work) {
  for (const std::string_view flag : flags)
    if (!read_number(invocation, flag, 0))
      return complain_usage(invocation, fmt::format("--{} is a number", flag));
  return run_session(invocation, work);
}

}  // namespace

int registry_head_verb(const Invocation& invocation) {
  if (invocation.has("after") && !invocation.has("wait"))
    return complain_usage(invocation, "--after goes with --wait");
  return with_numbers(invocation, {"after"}, tell_head);
}
int registry_log_verb(const Invocation& invocation) {
  return with_numbers(invocation, {"from", "limit"}, tell_log);
}
int registry_show_verb(const Invocation& invocation) {
  const std::string& which = invocation.arguments[0];
  if (which != "head" && !parse_version_number(which) && !client::is_proposal_id(which))
    return complain_usage(
        invocation,
        fmt::format("`{}` is neither a version, nor `head`, nor a proposal's id", printable(which)));
  return run_session(invocation, show);
}
int registry_audit_verb(const Invocation& invocation) {
  return with_numbers(invocation, {"after", "limit"}, tell_audit);
}
int registry_follow_verb(const Invocation& invocation) { return with_numbers(invocation, {"from"}, follow); }

}  // namespace cairn::cli
