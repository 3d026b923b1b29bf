// cairn: the one binary.
#include <string>
#include <vector>

#include "cairn/command.h"
#include "cairn/exit_code.h"
#include "cairn/output.h"
#include "cairn/terminal.h"

using namespace cairn::cli;

namespace {

int obey(std::vector<std::string> words) {
  if (words.size() == 1 && words[0] == "--version") words[0] = "version";
  if (words.empty()) {
    (void)write_message(help_text(command_tree(), ""));
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
    (void)write_result(help_text(*invocation->command, invocation->verb));
    return code_of(Exit::ok);
  }
  return invocation->command->run(*invocation);
}

}  // namespace

int main(int argc, char** argv) {
  prepare_streams();
  return finish_result(obey({argv + 1, argv + argc}));
}
