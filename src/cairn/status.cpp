// `cairn status` and `health`: a service's state, and whether it is ready.
#include <fmt/format.h>

#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/json_reader.h"

namespace cairn::cli {
namespace {

constexpr std::size_t status_max = 4 << 20;

// Every value of a JSON text as `name.name  value`, in order: a status page grows without its readers.
void print_values(const Terminal& terminal, const std::string& name, const codec::JsonValue& value) {
  const auto row = [&](std::string_view text) { terminal.line(fmt::format("{:<24} {}", name, text)); };
  switch (value.kind()) {
    case codec::JsonKind::object:
      for (const codec::JsonField field : *value.fields())
        print_values(terminal, name.empty() ? std::string(field.key) : fmt::format("{}.{}", name, field.key),
                     field.value);
      return;
    case codec::JsonKind::array: {
      std::size_t i = 0;
      for (const codec::JsonValue item : *value.items())
        print_values(terminal, fmt::format("{}[{}]", name, i++), item);
      return;
    }
    case codec::JsonKind::string:
      return row(printable(*value.as_string()));
    case codec::JsonKind::integer:
      if (auto number = value.as_uint()) {
        const bool bytes = name.ends_with("bytes") || name.ends_with("capacity");
        return row(bytes ? fmt::format("{} ({})", *number, human_bytes(*number))
                         : fmt::format("{}", *number));
      }
      return row(fmt::format("{}", value.as_int().value_or(0)));
    case codec::JsonKind::number:
      return row(fmt::format("{}", value.as_double().value_or(0)));
    case codec::JsonKind::boolean:
      return row(value.as_bool().value_or(false) ? "yes" : "no");
    case codec::JsonKind::null:
      return row("-");
  }
}

Task<Exit> tell_status(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  const auto ready = co_await session->storage->readiness(call);
  // A registry's status shows its head. The gateway and the index have none of their own.
  client::Outcome<std::string> status = "{}";
  if (session->server.service == "registry")
    status =
        co_await session->registry->transport().send_for_text(call, {.target = "/registry/head"}, status_max);
  else if (session->server.service != "gateway" && session->server.service != "index")
    status = co_await session->storage->status(call);
  if (!status) {
    terminal.complain(status.error());
    co_return exit_of(status.error());
  }
  codec::JsonReader reader({.bytes = status_max});
  const auto root = reader.parse(*status);
  if (!root) {
    terminal.complain("upstream", "the server's status was not understood", session->where, {});
    co_return Exit::failed;
  }
  if (terminal.json()) {
    terminal.line(fmt::format(
        R"({{"url":{},"service":{},"version":{},"ready":{},"write_ready":{},"status":{}}})",
        json_string(session->where), json_string(session->server.service),
        json_string(session->server.version), ready && ready->ready, ready && ready->write_ready, *status));
    co_return Exit::ok;
  }
  terminal.line(fmt::format("{:<24} {} {} at {}", "server", printable(session->server.service),
                            printable(session->server.version), session->where));
  terminal.line(
      fmt::format("{:<24} {}", "ready",
                  !ready || !ready->ready ? "no" : (ready->write_ready ? "yes" : "for reads only")));
  print_values(terminal, "", *root);
  co_return Exit::ok;
}

Task<Exit> tell_health(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  const auto ready = co_await session->storage->readiness(call);
  if (!ready) {
    terminal.complain(ready.error());
    co_return exit_of(ready.error());
  }
  std::string missing;
  for (const std::string& gate : ready->missing) missing += (missing.empty() ? "" : ", ") + gate;
  if (terminal.json())
    terminal.line(
        fmt::format(R"({{"url":{},"service":{},"ready":{},"write_ready":{},"degraded":{},"missing":[{}]}})",
                    json_string(session->where), json_string(session->server.service), ready->ready,
                    ready->write_ready, ready->degraded, [&] {
                      std::string list;
                      for (const std::string& gate : ready->missing)
                        list += (list.empty() ? "" : ",") + json_string(gate);
                      return list;
                    }()));
  else if (!terminal.quiet())
    terminal.line(
        fmt::format("{} is {}{}", printable(session->server.service),
                    !ready->ready ? "not ready" : (ready->write_ready ? "ready" : "ready for reads only"),
                    missing.empty() ? "" : fmt::format(" (missing: {})", printable(missing))));
  co_return ready->ready ? Exit::ok : Exit::failed;
}

}  // namespace

int status_verb(const Invocation& invocation) { return run_session(invocation, tell_status); }
int health_verb(const Invocation& invocation) { return run_session(invocation, tell_health); }

}  // namespace cairn::cli
