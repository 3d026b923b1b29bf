#include "cairn/command.h"

#include <algorithm>

#include "config/suggest.h"

namespace cairn::cli {
namespace {

constexpr Flag common[] = {
    {"json", 0, "", "One JSON object a line on stdout (docs/schemas/ has the form)."},
    {"quiet", 'q', "", "Only the data that was asked for; no talk."},
    {"color", 0, "WHEN", "Colour in messages.", Completes::nothing, "auto|always|never"},
    {"help", 'h', "", "This text."},
};
constexpr Flag daemon_data{"data", 0, "DIR",
                           "The data directory: its daemon is asked, and nobody else; it has the admin "
                           "capability (./cairn-data, and then others may be asked too).",
                           Completes::directory};
constexpr Flag daemon_authorities{"ca", 0, "FILE",
                                  "Who vouches for a server at https:// (PEM). Else CAIRN_CA, the data "
                                  "directory's own authority for its daemon, the system's.",
                                  Completes::file};
constexpr Flag storage_daemon[] = {
    {"url", 0, "URL",
     "The server: http://HOST:PORT, https://HOST:PORT or unix:PATH. Else CAIRN_URL, the data directory's "
     "daemon; "
     "without --data also port 7400, port 7410."},
    daemon_authorities,
    daemon_data,
};
constexpr Flag registry_daemon[] = {
    {"url", 0, "URL",
     "The registry: http://HOST:PORT, https://HOST:PORT or unix:PATH. Else CAIRN_URL, the data directory's "
     "registry; "
     "without --data also port 7430."},
    daemon_authorities,
    daemon_data,
};

constexpr Flag index_daemon[] = {
    {"url", 0, "URL",
     "The server: http://HOST:PORT, https://HOST:PORT or unix:PATH. Else CAIRN_URL, the data directory's "
     "daemon or index; without --data also port 7400, port 7420."},
    {"index", 0, "URL", "The index, where it is not the server. Else CAIRN_INDEX."},
    daemon_authorities,
    daemon_data,
};

const Command* find_command(std::span<const Command> commands, std::string_view name) noexcept {
  const auto at = std::ranges::find(commands, name, &Command::name);
  return at == commands.end() ? nullptr : &*at;
}

std::string nearest(std::string_view word, const std::vector<std::string_view>& known) {
  return std::string(config::suggest(word, known).value_or(""));
}

UsageProblem unknown_command(const Command& in, std::string_view verb, std::string_view word) {
  std::vector<std::string_view> known;
  for (const Command& one : in.commands)
    if (!one.hidden) known.push_back(one.name);
  const std::string near = nearest(word, known);
  const std::string prefix = verb.empty() ? "cairn" : "cairn " + std::string(verb);
  return {"no verb `" + std::string(word) + "`",
          near.empty() ? prefix + " --help" : "did you mean `" + prefix + " " + near + "`?"};
}

class Parser {
 public:
  Parser(const Command& root, std::span<const std::string> words) : words_(words) {
    invocation_.command = &root;
  }

  std::expected<Invocation, UsageProblem> parse() {
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      const bool option = !only_words_ && word.size() > 1 && word[0] == '-';
      if (option && word == "--")
        only_words_ = true;
      else if (option)
        take_option(word);
      else
        take_word(word);
      if (problem_) return std::unexpected(*problem_);
    }
    if (!invocation_.has("help")) check_count();
    if (problem_) return std::unexpected(*problem_);
    return std::move(invocation_);
  }

 private:
  void refuse(std::string what, std::string hint = {}) {
    if (hint.empty()) hint = "cairn " + invocation_.verb + (invocation_.verb.empty() ? "--help" : " --help");
    problem_ = UsageProblem{std::move(what), std::move(hint)};
  }

  void take_word(const std::string& word) {
    const Command& command = *invocation_.command;
    if (command.commands.empty()) {
      invocation_.arguments.push_back(word);
      return;
    }
    const Command* next = find_command(command.commands, word);
    if (next == nullptr) {
      problem_ = unknown_command(command, invocation_.verb, word);
      return;
    }
    invocation_.command = next;
    const std::vector<Flag> flags = flags_of(*next);
    for (const auto& [name, value] : invocation_.flags)
      if (std::ranges::find(flags, name, &Flag::name) == flags.end()) {
        invocation_.verb += (invocation_.verb.empty() ? "" : " ") + word;
        return refuse("`" + invocation_.verb + "` has no option `--" + std::string(name) + "`");
      }
    invocation_.verb += (invocation_.verb.empty() ? "" : " ") + word;
  }

  const Flag* find_flag(std::string_view name, char letter) {
    flags_ = flags_of(*invocation_.command);
    const auto at = std::ranges::find_if(
        flags_, [&](const Flag& flag) { return letter != 0 ? flag.letter == letter : flag.name == name; });
    return at == flags_.end() ? nullptr : &*at;
  }

  void take_option(std::string_view word) {
    if (!word.starts_with("--")) {
      take_letters(word.substr(1));
      return;
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
    const Flag* flag = find_flag(name, 0);
    if (flag == nullptr) {
      std::vector<std::string_view> known;
      for (const Flag& one : flags_) known.push_back(one.name);
      const std::string near = nearest(name, known);
      refuse("no option `--" + std::string(name) + "`" +
             (near.empty() ? "" : " (did you mean --" + near + "?)"));
      return;
    }
    if (flag->value.empty()) {
      if (equals != word.npos) return refuse("--" + std::string(name) + " takes no value");
      add(*flag, {});
    } else if (equals != word.npos) {
      add(*flag, std::string(word.substr(equals + 1)));
    } else {
      take_value(*flag);
    }
  }

  void take_letters(std::string_view letters) {
    for (std::size_t i = 0; i < letters.size() && !problem_; ++i) {
      const Flag* flag = find_flag({}, letters[i]);
      if (flag == nullptr) return refuse("no option `-" + std::string(1, letters[i]) + "`");
      if (flag->value.empty()) {
        add(*flag, {});
        continue;
      }
      if (i + 1 < letters.size())
        add(*flag, std::string(letters.substr(i + 1)));
      else
        take_value(*flag);
      return;
    }
  }

  void take_value(const Flag& flag) {
    if (at_ + 1 >= words_.size())
      return refuse("--" + std::string(flag.name) + " needs a value: " + std::string(flag.value));
    add(flag, words_[++at_]);
  }

  void add(const Flag& flag, std::string value) {
    if (!flag.choices.empty()) {
      const std::string among = "|" + std::string(flag.choices) + "|";
      if (value.empty() || among.find("|" + value + "|") == std::string::npos)
        return refuse("--" + std::string(flag.name) + " is one of " + std::string(flag.choices));
    }
    // An empty path or address comes from a variable that was not set. It must not mean the root directory,
    // or any server.
    const bool place = flag.completes == Completes::file || flag.completes == Completes::directory;
    if (value.empty() && (place || flag.name == "url" || flag.name == "index"))
      return refuse("--" + std::string(flag.name) +
                    " is empty; it needs a value: " + std::string(flag.value));
    if (!flag.repeated && invocation_.has(flag.name))
      return refuse("--" + std::string(flag.name) + " is there twice");
    invocation_.flags.emplace_back(flag.name, std::move(value));
  }

  void check_count() {
    const Command& command = *invocation_.command;
    if (command.run == nullptr) return refuse(invocation_.verb.empty() ? "which verb?" : "which one?");
    std::size_t most = 0;
    std::vector<std::string_view> needed;
    for (const Argument& one : command.arguments) {
      if (one.count == Count::one || one.count == Count::some) needed.push_back(one.name);
      most = one.count == Count::some || one.count == Count::any ? ~std::size_t{0} : most + 1;
      if (most == ~std::size_t{0}) break;
    }
    if (invocation_.arguments.size() < needed.size())
      refuse("`" + invocation_.verb + "` needs " + std::string(needed[invocation_.arguments.size()]));
    else if (invocation_.arguments.size() > most)
      refuse("one word too many: `" + invocation_.arguments[most] + "`");
  }

  std::span<const std::string> words_;
  std::size_t at_ = 0;
  bool only_words_ = false;
  Invocation invocation_;
  std::vector<Flag> flags_;
  std::optional<UsageProblem> problem_;
};

}  // namespace

std::span<const Flag> common_flags() noexcept { return common; }
std::span<const Flag> daemon_flags(Asks asks) noexcept {
  if (asks == Asks::nobody) return {};
  if (asks == Asks::index) return index_daemon;
  return asks == Asks::registry ? std::span<const Flag>(registry_daemon) : storage_daemon;
}

std::vector<Flag> flags_of(const Command& command) {
  std::vector<Flag> flags(command.flags.begin(), command.flags.end());
  const auto add = [&](std::span<const Flag> more) {
    for (const Flag& flag : more)
      if (std::ranges::find(flags, flag.name, &Flag::name) == flags.end()) flags.push_back(flag);
  };
  add(daemon_flags(command.asks));
  add(common);
  return flags;
}

std::optional<std::string_view> Invocation::find(std::string_view name) const noexcept {
  const auto at =
      std::ranges::find(flags.rbegin(), flags.rend(), name, &std::pair<std::string_view, std::string>::first);
  if (at == flags.rend()) return std::nullopt;
  return at->second;
}

std::vector<std::string> Invocation::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [flag, value] : flags)
    if (flag == name) values.push_back(value);
  return values;
}

std::expected<Invocation, UsageProblem> parse_command_line(const Command& root,
                                                           std::span<const std::string> words) {
  return Parser(root, words).parse();
}

}  // namespace cairn::cli
