// Completions of the three shells, from the command tree.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cairn/command.h"
#include "cairn/output.h"
#include "cairn/services.h"
#include "cairn/verbs.h"

namespace cairn::cli {
namespace {

void each_command(const Command& command, const std::string& verb,
                  const std::function<void(const Command&, const std::string&)>& visit) {
  if (command.hidden) return;
  visit(command, verb);
  for (const Command& one : command.commands)
    each_command(one, verb.empty() ? std::string(one.name) : fmt::format("{} {}", verb, one.name), visit);
}

std::string service_words() {
  std::string words;
  for (const ServiceEntry& one : services()) words += fmt::format("{}{}", words.empty() ? "" : " ", one.name);
  return words;
}

std::string words_below(const Command& command) {
  std::string words;
  for (const Command& one : command.commands)
    if (!one.hidden) words += fmt::format("{}{}", words.empty() ? "" : " ", one.name);
  if (words.empty())
    for (const Argument& one : command.arguments)
      if (one.completes == Completes::service) words = service_words();
  return words;
}

std::string option_words(const Command& command) {
  std::string words;
  for (const Flag& flag : flags_of(command)) {
    words += fmt::format("{}--{}", words.empty() ? "" : " ", flag.name);
    if (flag.letter != 0) words += fmt::format(" -{}", flag.letter);
  }
  return words;
}

bool is_path(Completes what) { return what == Completes::file || what == Completes::directory; }

bool completes_files(const Command& command) {
  return std::ranges::any_of(command.arguments, [](const Argument& one) { return is_path(one.completes); });
}

bool completes_names(const Command& command) {
  return std::ranges::any_of(command.arguments,
                             [](const Argument& one) { return one.completes == Completes::name; });
}

std::string bash(const Command& root) {
  std::string cases, values;
  each_command(root, "", [&](const Command& command, const std::string& verb) {
    cases += fmt::format("    '{}') words='{}'; options='{}'; files={}; names={} ;;\n", verb,
                         words_below(command), option_words(command), completes_files(command) ? 1 : 0,
                         completes_names(command) ? 1 : 0);
    for (const Flag& flag : flags_of(command)) {
      if (flag.value.empty()) continue;
      std::string choices(flag.choices);
      for (char& c : choices)
        if (c == '|') c = ' ';
      const std::string found =
          fmt::format("files={}; names={}; words='{}'; return 0 ;;", is_path(flag.completes) ? 1 : 0,
                      flag.completes == Completes::name ? 1 : 0, choices);
      values += fmt::format("    '{} --{}') {}\n", verb, flag.name, found);
      if (flag.letter != 0) values += fmt::format("    '{} -{}') {}\n", verb, flag.letter, found);
    }
  });
  return fmt::format(R"(# bash completion of cairn; made by: cairn completion bash
_cairn_look() {{
  words= options= files=0 names=0
  case "$1" in
{0}    *) return 1 ;;
  esac
}}
_cairn_value() {{
  case "$1" in
{1}  esac
  return 1
}}
_cairn_names() {{
  local found
  found=$(cairn name ls -q --limit 100 -- "$1" 2>/dev/null)
  COMPREPLY+=($(compgen -W "$found" -- "$1"))
}}
_cairn() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb= word words options files names i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    [[ $word == -* ]] && continue
    if _cairn_look "${{verb:+$verb }}$word"; then verb="${{verb:+$verb }}$word"; else break; fi
  done
  if _cairn_value "$verb $previous"; then
    [[ $files == 1 ]] && {{ compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); }} ||
      COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ $names == 1 ]]; then _cairn_names "$current"; fi
    return
  fi
  _cairn_look "$verb"
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ $names == 1 ]]; then _cairn_names "$current"; fi
    if [[ $files == 1 ]]; then compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")); fi
  fi
}}
complete -F _cairn cairn
)",
                     cases, values);
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish(const Command& root) {
  std::string out =
      "# fish completion of cairn; made by: cairn completion fish\n"
      "function __cairn_verb\n"
      "  set -l words (commandline -opc)[2..-1]\n"
      "  string join ' ' -- (string match -v -- '-*' $words)\n"
      "end\n"
      "function __cairn_at\n"
      "  set -l now (__cairn_verb)\n"
      "  test \"$now\" = \"$argv[1]\"\n"
      "end\n"
      "function __cairn_in\n"
      "  set -l now (__cairn_verb)\n"
      "  test \"$now\" = \"$argv[1]\"; or string match -q -- \"$argv[1] *\" $now\n"
      "end\n"
      "function __cairn_names\n"
      "  cairn name ls -q --limit 100 -- (commandline -ct) 2>/dev/null\n"
      "end\n"
      "complete -c cairn -f\n";
  each_command(root, "", [&](const Command& command, const std::string& verb) {
    for (const Command& one : command.commands)
      if (!one.hidden)
        out += fmt::format("complete -c cairn -n {} -a {} -d {}\n",
                           cli::quoted(fmt::format("__cairn_at '{}'", verb)), one.name,
                           cli::quoted(one.summary));
    if (command.run == nullptr) return;
    // For a verb with verbs below it, only the words directly behind the verb itself.
    const std::string inside =
        cli::quoted(fmt::format("{} '{}'", command.commands.empty() ? "__cairn_in" : "__cairn_at", verb));
    if (completes_files(command)) out += fmt::format("complete -c cairn -n {} -F\n", inside);
    if (completes_names(command))
      out += fmt::format("complete -c cairn -n {} -a '(__cairn_names)'\n", inside);
    const std::string words = command.commands.empty() ? words_below(command) : std::string();
    if (!words.empty()) out += fmt::format("complete -c cairn -n {} -a {}\n", inside, cli::quoted(words));
    for (const Flag& flag : flags_of(command)) {
      out += fmt::format("complete -c cairn -n {} -l {}", inside, flag.name);
      if (flag.letter != 0) out += fmt::format(" -s {}", flag.letter);
      if (!flag.value.empty()) out += is_path(flag.completes) ? " -r -F" : " -x";
      if (flag.completes == Completes::name) out += " -a '(__cairn_names)'";
      std::string choices(flag.choices);
      for (char& c : choices)
        if (c == '|') c = ' ';
      if (!choices.empty()) out += fmt::format(" -a {}", cli::quoted(choices));
      out += fmt::format(" -d {}\n", cli::quoted(flag.text));
    }
  });
  return out;
}

// zsh runs bash's own: one description less to keep right.
std::string zsh(const Command& root) {
  return "#compdef cairn\n# zsh completion of cairn; made by: cairn completion zsh\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash(root);
}

}  // namespace

std::string completion_script(const Command& root, std::string_view shell) {
  if (shell == "fish") return fish(root);
  return shell == "zsh" ? zsh(root) : bash(root);
}

int completion_verb(const Invocation& invocation) {
  const std::string& shell = invocation.arguments[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    return complain_usage(invocation, "completions are for bash, zsh and fish, not " + shell);
  (void)write_result(completion_script(command_tree(), shell));
  return 0;
}

}  // namespace cairn::cli
