// The verbs about the program itself: configuration, topology, version, help, and the pages made from them.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cairn/compose.h"
#include "cairn/exit_code.h"
#include "cairn/services.h"
#include "cairn/sources.h"
#include "cairn/terminal.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"
#include "config/load.h"
#include "config/print.h"
#include "config/problem.h"
#include "serve/openapi.h"

namespace cairn::cli {
namespace {

int no_service(const Invocation& invocation, std::string_view name) {
  std::string known;
  for (const ServiceEntry& one : services())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  return complain_usage(invocation,
                        fmt::format("no service `{}` is built into this version", printable(name)),
                        known.empty() ? std::string() : "there is: " + known);
}

int refuse_configuration(const Terminal& terminal, std::span<const config::Problem> problems) {
  for (const config::Problem& problem : problems) {
    if (!terminal.json()) {
      terminal.message(config::format_problem(problem) + "\n");
      continue;
    }
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("where", problem.where).field("key", problem.key).field("value", problem.value);
    json.field("rule", problem.rule).end_object().finish();
    terminal.line(text);
  }
  return code_of(Exit::bad_config);
}

// Loads the named service's configuration as the service would.
int with_configuration(const Invocation& invocation, const std::string& service,
                       std::optional<std::string> file,
                       int (*use)(const Terminal&, const config::Snapshot&)) {
  const ServiceEntry* entry = find_service(service);
  if (entry == nullptr) return no_service(invocation, service);
  const Terminal terminal(invocation);
  config::Schema schema;
  entry->declare_keys(schema);
  auto sources = read_sources(invocation, std::move(file));
  if (!sources) {
    terminal.complain("bad_config", sources.error(), {}, {});
    return code_of(Exit::bad_config);
  }
  const auto snapshot = config::load(schema, *sources);
  if (!snapshot) return refuse_configuration(terminal, snapshot.error());
  return use(terminal, **snapshot);
}

// The same for `cairn up`, whose file has a table for each service.
int with_up_parts(const Invocation& invocation, std::optional<std::string> file,
                  std::function<int(const Terminal&, std::span<const UpConfiguration::Part>)> accepted) {
  const Terminal terminal(invocation);
  return with_up_configuration(
      invocation, std::move(file),
      {.accepted = [&](std::span<const UpConfiguration::Part> parts) { return accepted(terminal, parts); },
       .refused = [&](const config::Problems& problems) { return refuse_configuration(terminal, problems); },
       .unreadable =
           [&](const std::string& why) {
             terminal.complain("bad_config", why, {}, {});
             return code_of(Exit::bad_config);
           }});
}

int say_good(const Terminal& terminal) {
  if (terminal.json())
    terminal.line(R"({"ok":true})");
  else
    terminal.say("the configuration is good");
  return code_of(Exit::ok);
}

int write_page(const std::filesystem::path& path, const std::string& text) {
  std::error_code problem;
  std::filesystem::create_directories(path.parent_path(), problem);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return 1;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written ? 0 : 1;
}

}  // namespace

int complain_usage(const Invocation& invocation, const std::string& what, const std::string& hint) {
  Terminal(invocation)
      .complain("usage", what, {}, hint.empty() ? fmt::format("cairn {} --help", invocation.verb) : hint);
  return code_of(Exit::usage);
}

int config_show_verb(const Invocation& invocation) {
  std::optional<std::string> file;
  if (const auto given = invocation.find("config")) file = *given;
  if (invocation.arguments.empty())
    return with_up_parts(
        invocation, file, [](const Terminal& terminal, std::span<const UpConfiguration::Part> parts) {
          std::string text;
          for (const auto& [table, snapshot] : parts)
            text +=
                terminal.json() ? config::show_json(*snapshot, table) : config::show_text(*snapshot, table);
          (void)write_result(text);
          return code_of(Exit::ok);
        });
  return with_configuration(
      invocation, invocation.arguments[0], file,
      [](const Terminal& terminal, const config::Snapshot& snapshot) {
        (void)write_result(terminal.json() ? config::show_json(snapshot) : config::show_text(snapshot));
        return code_of(Exit::ok);
      });
}

int config_check_verb(const Invocation& invocation) {
  if (invocation.arguments.size() == 1)
    return with_up_parts(invocation, invocation.arguments[0],
                         [](const Terminal& terminal, auto) { return say_good(terminal); });
  return with_configuration(
      invocation, invocation.arguments[0], invocation.arguments[1],
      [](const Terminal& terminal, const config::Snapshot&) { return say_good(terminal); });
}

int config_docs_verb(const Invocation& invocation) {
  const ServiceEntry* entry = find_service(invocation.arguments[0]);
  if (entry == nullptr) return no_service(invocation, invocation.arguments[0]);
  config::Schema schema;
  entry->declare_keys(schema);
  const std::string page = config::docs_markdown(schema, entry->name);
  (void)write_result(invocation.has("json") ? fmt::format("{{\"service\":{},\"markdown\":{}}}\n",
                                                          json_string(entry->name), json_string(page))
                                            : page);
  return code_of(Exit::ok);
}

int topology_verb(const Invocation& invocation) {
  const ServiceEntry* entry = find_service(invocation.arguments[0]);
  if (entry == nullptr) return no_service(invocation, invocation.arguments[0]);
  std::string text = invocation.has("json")      ? format_topology_json(*entry->declaration)
                     : invocation.has("mermaid") ? format_topology_mermaid(*entry->declaration)
                                                 : format_topology_text(*entry->declaration);
  if (!text.ends_with('\n')) text += '\n';
  (void)write_result(text);
  return code_of(Exit::ok);
}

int version_verb(const Invocation& invocation) {
  (void)write_result(invocation.has("json") ? fmt::format("{{\"version\":{},\"git\":{}}}\n",
                                                          json_string(CAIRN_VERSION), json_string(CAIRN_GIT))
                                            : fmt::format("cairn {} ({})\n", CAIRN_VERSION, CAIRN_GIT));
  return code_of(Exit::ok);
}

int help_verb(const Invocation& invocation) {
  const Command* command = &command_tree();
  std::string verb;
  for (const std::string& word : invocation.arguments) {
    const Command* next = nullptr;
    for (const Command& one : command->commands)
      if (one.name == word) next = &one;
    if (next == nullptr)
      return complain_usage(invocation, fmt::format("no verb `{}`", printable(word)), "cairn help");
    command = next;
    verb += (verb.empty() ? "" : " ") + word;
  }
  (void)write_result(help_text(*command, verb));
  return code_of(Exit::ok);
}

int docs_verb(const Invocation& invocation) {
  const std::filesystem::path to = invocation.arguments[0];
  int failed = write_page(to / "cli.md", reference_page(command_tree()));
  for (const ServiceEntry& one : services()) {
    config::Schema schema;
    one.declare_keys(schema);
    failed +=
        write_page(to / "config" / fmt::format("{}.md", one.name), config::docs_markdown(schema, one.name));
    failed += write_page(to / "concurrency" / fmt::format("{}.md", one.name),
                         format_concurrency_page(*one.declaration));
    failed += write_page(to / "openapi" / fmt::format("{}.json", one.name),
                         serve::format_openapi(*one.declaration, one.routes(), CAIRN_VERSION));
  }
  if (failed == 0) return code_of(Exit::ok);
  Terminal(invocation).complain("io_failed", fmt::format("{} pages could not be written", failed), {}, {});
  return code_of(Exit::failed);
}

}  // namespace cairn::cli
