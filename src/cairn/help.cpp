// Texts made from the command tree: --help and docs/cli.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cairn/command.h"

namespace cairn::cli {
namespace {

std::string flag_form(const Flag& flag) {
  std::string form =
      flag.letter != 0 ? fmt::format("-{}, --{}", flag.letter, flag.name) : fmt::format("--{}", flag.name);
  if (!flag.value.empty()) form += fmt::format(" {}", flag.choices.empty() ? flag.value : flag.choices);
  return form;
}

std::string flag_text(const Flag& flag) {
  std::string text(flag.text);
  if (flag.words != nullptr) text += fmt::format(" {}.", fmt::join(flag.words(), ", "));
  return text + (flag.repeated ? " May be repeated." : "");
}

std::string argument_form(const Argument& argument) {
  switch (argument.count) {
    case Count::one:
      return std::string(argument.name);
    case Count::optional:
      return fmt::format("[{}]", argument.name);
    case Count::some:
      return fmt::format("{}…", argument.name);
    case Count::any:
      return fmt::format("[{}…]", argument.name);
  }
  return {};
}

// Text filled to 100 columns behind an indent.
std::string filled(std::string_view text, std::size_t indent) {
  constexpr std::size_t width = 100;
  std::string out, line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return out + line;
}

std::string row(std::string_view left, std::string_view right) {
  constexpr std::size_t column = 26;
  std::string line = fmt::format("  {}", left);
  if (line.size() + 2 > column)
    line += "\n" + std::string(column, ' ');
  else
    line.resize(column, ' ');
  return line + filled(right, column) + "\n";
}

std::string flag_rows(std::span<const Flag> flags) {
  std::string out;
  for (const Flag& flag : flags) out += row(flag_form(flag), flag_text(flag));
  return out;
}

std::string full(std::string_view verb) {
  return verb.empty() ? std::string("cairn") : fmt::format("cairn {}", verb);
}

// A bar would end the table's cell.
std::string escape_bars(std::string form) {
  for (std::size_t at = form.find('|'); at != form.npos; at = form.find('|', at + 2))
    form.replace(at, 1, "\\|");
  return form;
}

std::string table_row(const Flag& flag) {
  return fmt::format("| `{}` | {} |\n", escape_bars(flag_form(flag)), flag_text(flag));
}

void append_reference(std::string& out, const Command& command, const std::string& verb) {
  if (command.hidden) return;
  if (command.run != nullptr) {
    out +=
        fmt::format("\n## {}\n\n{}\n\n```\n{}\n```\n", full(verb), command.summary, synopsis(command, verb));
    if (!command.text.empty()) out += fmt::format("\n{}\n", command.text);
    const std::vector<Flag> flags(command.flags.begin(), command.flags.end());
    if (!command.arguments.empty() || !flags.empty()) out += "\n| | |\n|---|---|\n";
    for (const Argument& one : command.arguments)
      out += fmt::format("| `{}` | {} |\n", escape_bars(std::string(one.name)), one.text);
    for (const Flag& one : flags) out += table_row(one);
    if (command.asks != Asks::nobody)
      out += fmt::format("\nTakes the options that name the {}.\n",
                         command.asks == Asks::registry ? "registry" : "server");
    if (!command.examples.empty()) {
      out += "\n```sh\n";
      for (const std::string_view example : command.examples) out += fmt::format("{}\n", example);
      out += "```\n";
    }
  }
  for (const Command& one : command.commands)
    append_reference(out, one, verb.empty() ? std::string(one.name) : fmt::format("{} {}", verb, one.name));
}

constexpr std::string_view exit_codes =
    "0 ok · 1 other · 2 some of several failed · 3 not found · 4 integrity (hash or signature wrong) · "
    "5 unsigned or no proof · 6 busy, try later · 7 deadline · 8 refused (capability, quota) · "
    "9 conflict or precondition · 10 a service's drain was aborted · 64 usage · 69 no server reached · "
    "78 bad configuration · 130 interrupted";

}  // namespace

std::string synopsis(const Command& command, std::string_view verb) {
  std::string out = full(verb);
  if (command.run == nullptr) return out + " VERB";
  for (const Flag& flag : command.flags)
    if (!flag.value.empty())
      out += fmt::format(fmt::runtime(flag.required ? " {}{}" : " [{}]{}"), flag_form(flag),
                         flag.repeated ? "…" : "");
  if (std::ranges::any_of(command.flags, [](const Flag& flag) { return flag.value.empty(); }) ||
      command.asks != Asks::nobody)
    out += " [OPTION]…";
  for (const Argument& argument : command.arguments) out += " " + argument_form(argument);
  if (!command.commands.empty()) out += fmt::format("\n{} VERB", full(verb));
  return out;
}

std::string help_text(const Command& command, std::string_view verb) {
  std::string forms = synopsis(command, verb);
  for (std::size_t at = forms.find('\n'); at != forms.npos; at = forms.find('\n', at + 1))
    forms.insert(at + 1, "  ");
  std::string out = fmt::format("{}\n\n  {}\n", command.summary, forms);
  if (!command.text.empty()) out += "\n" + filled(command.text, 0) + "\n";
  if (!command.commands.empty()) {
    out += "\n";
    for (const Command& one : command.commands)
      if (!one.hidden) out += row(one.name, one.summary);
  }
  if (!command.arguments.empty()) out += "\n";
  for (const Argument& one : command.arguments) out += row(one.name, one.text);
  if (!command.flags.empty()) out += "\nOptions\n" + flag_rows(command.flags);
  if (command.asks != Asks::nobody) {
    // A verb's own text about a flag is the better one.
    std::vector<Flag> flags;
    for (const Flag& flag : daemon_flags(command.asks))
      if (std::ranges::find(command.flags, flag.name, &Flag::name) == command.flags.end())
        flags.push_back(flag);
    out += "\nWhich server\n" + flag_rows(flags);
  }
  out += "\nOf every verb\n" + flag_rows(common_flags());
  if (!command.examples.empty()) out += "\nExamples\n";
  for (const std::string_view example : command.examples) out += fmt::format("  {}\n", example);
  if (verb.empty()) out += "\nExit codes\n  " + filled(exit_codes, 2) + "\n";
  return out;
}

std::string reference_page(const Command& root) {
  std::string out =
      "# cairn, the command\n\n"
      "This page is written by `cairn docs` from the declarations of the verbs; `./dev docs` renews it.\n\n"
      "Data goes to stdout, talk to stderr. `-` is stdin or stdout. An error says what, what was asked, and "
      "what to do next.\nWith `--json` every line of stdout is one JSON object, whose form is in "
      "[schemas](schemas/); an error is one on stderr.\n\n";
  out += fmt::format("Exit codes: {}.\n\nOf every verb:\n\n| | |\n|---|---|\n", exit_codes);
  for (const Flag& one : common_flags()) out += table_row(one);
  out +=
      "\nOf verbs that ask a server; its capability is `CAIRN_CAP`, which goes where told, else the data "
      "directory's `keys/admin.cap`, which goes only to that directory's own daemon, whatever `--url` "
      "says:\n\n| | |\n|---|---|\n";
  for (const Flag& one : daemon_flags(Asks::storage)) out += table_row(one);
  out += "\nThose that ask the registry look elsewhere for it:\n\n| | |\n|---|---|\n";
  out += table_row(daemon_flags(Asks::registry).front());
  append_reference(out, root, "");
  return out;
}

}  // namespace cairn::cli
