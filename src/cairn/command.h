// Command: the one declaration of a verb: its words, flags and texts. The parser, --help, the completions and
// docs/cli.md are made from it.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {

// The completions that a shell offers for a word.
enum class Completes : std::uint8_t { nothing, file, directory, service, name };

struct Flag {
  std::string_view name;   // without the dashes
  char letter = 0;         // 0: none
  std::string_view value;  // placeholder for the value in texts; empty: the flag takes none
  std::string_view text;
  Completes completes = Completes::nothing;
  std::string_view choices = {};  // separated by `|`; empty: any value
  bool repeated = false;          // may be given several times
  bool required = false;          // shown in texts; the verb itself checks it
  // The words that the value may be made of; the text ends with them. Null: any words.
  std::span<const std::string_view> (*words)() noexcept = nullptr;
};

enum class Count : std::uint8_t { one, optional, some, any };  // some: at least one

struct Argument {
  std::string_view name;
  std::string_view text;
  Count count = Count::one;
  Completes completes = Completes::nothing;
};

class Invocation;

// Which server a verb asks; `every`: each service of the data directory. A verb that asks a server takes the
// flags for its address and for the capability.
enum class Asks : std::uint8_t { nobody, storage, index, registry, every };

struct Command {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view text = {};
  std::span<const Argument> arguments = {};
  std::span<const Flag> flags = {};
  std::span<const std::string_view> examples = {};
  std::span<const Command> commands = {};   // verbs below this one
  int (*run)(const Invocation&) = nullptr;  // null: a verb below it must be named
  Asks asks = Asks::nobody;
  bool hidden = false;  // for the build, not for people
};

// The flags of every verb, and those of verbs that ask a server.
std::span<const Flag> common_flags() noexcept;
std::span<const Flag> daemon_flags(Asks asks) noexcept;
// Every flag of the command: its own, then daemon_flags() and common_flags().
std::vector<Flag> flags_of(const Command& command);

// A parsed command line: the verb, its arguments and its flags.
class Invocation {
 public:
  const Command* command = nullptr;
  std::string verb;  // `cap mint`
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string_view, std::string>> flags;  // in the order given

  bool has(std::string_view name) const noexcept { return find(name).has_value(); }
  // The last one wins.
  std::optional<std::string_view> find(std::string_view name) const noexcept;
  std::vector<std::string> all(std::string_view name) const;
  std::string_view get(std::string_view name, std::string_view otherwise) const noexcept {
    return find(name).value_or(otherwise);
  }
};

// What is wrong with a command line, and what to do instead.
struct UsageProblem {
  std::string what;
  std::string hint;
};

// Options may stand before or behind arguments; `--` ends them; `-abc` is `-a -b -c` for letters without
// values; `--name=value` and `--name value` mean the same.
std::expected<Invocation, UsageProblem> parse_command_line(const Command& root,
                                                           std::span<const std::string> words);

// `cairn cap mint [OPTION]…`; two lines for a verb that can run by itself and also has verbs below it.
std::string synopsis(const Command& command, std::string_view verb);
std::string help_text(const Command& command, std::string_view verb);
// docs/cli.md, whole.
std::string reference_page(const Command& root);
std::string completion_script(const Command& root, std::string_view shell);

// The tree: `cairn` and every verb below it.
const Command& command_tree() noexcept;

}  // namespace cairn::cli
