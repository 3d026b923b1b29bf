#include "config/toml_source.h"

#include "base/ascii.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "config/toml_guard.h"

#define TOML_EXCEPTIONS 0
// Some assertions of toml++ fail on mere bad input (`[=`), which the code after them refuses properly. With
// NDEBUG they would even be promises to the optimiser.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16  // no key's value nests
#include <toml++/toml.h>

namespace cairn::config {
namespace {

constexpr std::size_t largest_file = 256 * 1024;

struct Found {
  toml::source_position position;
  Assignment assignment;
};

class Flattener {
 public:
  explicit Flattener(std::string_view name) : name_(name) {}

  void table(const std::string& path, const toml::table& table) {
    for (auto&& [key, node] : table) {
      const std::string inner = join(path, key.str());
      if (const auto* nested = node.as_table(); nested != nullptr && !nested->empty())
        this->table(inner, *nested);
      else
        leaf(inner, key, node);
    }
  }

  // The library sorts by key; people read by line.
  std::vector<Assignment> finish() && {
    std::ranges::sort(found_, {}, [](const Found& f) {
      return std::tuple(f.position.line, f.position.column, std::string_view(f.assignment.path));
    });
    std::vector<Assignment> assignments;
    for (Found& found : found_) assignments.push_back(std::move(found.assignment));
    return assignments;
  }

 private:
  static std::string join(const std::string& path, std::string_view key) {
    const bool bare = !key.empty() && std::ranges::all_of(key, [](char c) {
      return is_letter_or_digit(c) || c == '_' || c == '-';
    });
    const std::string part = bare ? std::string(key) : quote(key);
    return path.empty() ? part : path + "." + part;
  }

  void leaf(const std::string& path, const toml::key& key, const toml::node& node) {
    const bool empty_table = node.is_table();
    // A table's own position is its header; a value's says more than its key's.
    toml::source_position at = node.source().begin;
    if (!at) at = key.source().begin;
    found_.push_back(
        {at, {path, raw_of(node), fmt::format("{}:{}:{}", name_, at.line, at.column), empty_table}});
  }

  static Raw raw_of(const toml::node& node) {
    if (const auto* v = node.as_boolean()) return v->get();
    if (const auto* v = node.as_integer()) return v->get();
    if (const auto* v = node.as_floating_point()) return v->get();
    if (const auto* v = node.as_string()) return v->get();
    if (const auto* array = node.as_array()) {
      std::vector<std::string> list;
      for (const toml::node& item : *array) {
        const auto* text = item.as_string();
        if (text == nullptr) return Unsupported{"[...]"};
        list.push_back(text->get());
      }
      return list;
    }
    return Unsupported{node.is_table() ? "{}" : "a date or time"};
  }

  std::string name_;
  std::vector<Found> found_;
};

}  // namespace

std::expected<std::vector<Assignment>, Problem> read_toml(std::string_view name, std::string_view text) {
  const auto refuse = [&](std::size_t line, std::size_t column, std::string rule) {
    return std::unexpected(Problem{fmt::format("{}:{}:{}", name, line, column), {}, {}, std::move(rule)});
  };
  if (text.size() > largest_file) return refuse(1, 1, "a configuration is at most 256 KiB");
  if (const auto refusal = guard_toml(text)) return refuse(refusal->line, refusal->column, refusal->rule);
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    const auto at = error.source().begin;
    return refuse(at.line, at.column, fmt::format("not TOML: {}", quote(error.description())));
  }
  Flattener flattener(name);
  flattener.table({}, parsed.table());
  return std::move(flattener).finish();
}

}  // namespace cairn::config
