// cairn: the one binary.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cairn/command.h"
#include "cairn/exit_code.h"
#include "cairn/terminal.h"

using namespace cairn::cli;

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "--version") words[0] = "version";
  if (words.empty()) {
    fmt::print(stderr, "{}", help_text(command_tree(), ""));
    return code_of(Exit::usage);
  }
  const auto invocation = parse_command_line(command_tree(), words);
  if (!invocation) {
    Invocation none;
    for (const std::string& word : words)
      if (word == "--json") none.flags.emplace_back("json", "");
    Terminal(none).complain("usage", printable(invocation.error().what), {}, invocation.error().hint);
    return code_of(Exit::usage);
  }
  if (invocation->has("help")) {
    fmt::print("{}", help_text(*invocation->command, invocation->verb));
    return code_of(Exit::ok);
  }
  return invocation->command->run(*invocation);
}
