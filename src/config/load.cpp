#include "config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <memory>

#include "config/suggest.h"
#include "config/toml_source.h"

namespace cairn::config {
namespace {

// A spelling of a key of a section.
struct Meaning {
  std::size_t section;
  Schema::Name name;
};
using Names = std::map<std::string, Meaning, std::less<>>;

// The value that a source gave a key, and its spelling of the key.
struct Given {
  std::string spelling;
  Snapshot::Held held;
};

Problem problem_of(const Snapshot& snapshot, std::size_t index, std::string_view prefix, std::string rule) {
  const KeySpec& spec = snapshot.schema().entries()[index].spec;
  const auto& held = snapshot.at(index);
  return {held.origin.text, full_name(prefix, spec.name),
          spec.secret ? std::string(redacted) : format_toml(held.value, spec.choices), std::move(rule)};
}

class Loader {
 public:
  explicit Loader(std::span<const Section> sections) : sections_(sections) {
    for (std::size_t i = 0; i < sections.size(); ++i) {
      given_.emplace_back(sections[i].schema->entries().size());
      for (const auto& [name, meaning] : sections[i].schema->names()) {
        const std::string path = full_name(sections[i].prefix, name);
        variables_.emplace(environment_name(path), Meaning{i, meaning});
        names_.emplace(path, Meaning{i, meaning});
      }
    }
  }

  void read_file(const File& file) {
    auto assignments = read_toml(file.name, file.text);
    if (!assignments) {
      problems_.push_back(assignments.error());
      return;
    }
    for (const Assignment& each : *assignments) {
      if (const auto found = names_.find(each.path); found != names_.end())
        give(found->second, {Origin::Kind::file, each.where}, each.path, each.raw);
      else if (!each.empty_table || !is_table(each.path))
        unknown(names_, each.where, each.path, each.raw);
    }
  }

  void read_environment(const Sources& sources) {
    auto variables = sources.environment;
    std::ranges::sort(variables);
    for (const auto& [name, text] : variables) {
      if (!name.starts_with("CAIRN_") ||
          std::ranges::find(sources.other_variables, name) != sources.other_variables.end())
        continue;
      if (const auto found = variables_.find(name); found != variables_.end())
        give(found->second, {Origin::Kind::environment, "environment " + name}, name, Text{text});
      else
        unknown(variables_, "environment", name, Unsupported{"..."});  // it may be a misspelt secret
    }
  }

  void read_settings(std::span<const Setting> settings) {
    for (const Setting& each : settings) {
      const std::string where = "flag " + each.flag;
      if (const auto found = names_.find(each.key); found != names_.end())
        give(found->second, {Origin::Kind::flag, where}, each.key, Text{each.value});
      else
        unknown(names_, where, each.key, Text{each.value});
    }
  }

  std::expected<std::vector<SnapshotPtr>, Problems> finish(std::uint64_t version) {
    const bool complete = problems_.empty();
    std::vector<SnapshotPtr> snapshots;
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      snapshots.push_back(effective(i, version));
      append(check_danger(*snapshots.back(), sections_[i].prefix));
      // A default in place of a refused value would break rules that the operator never broke.
      if (complete) append(check_rules(*snapshots.back(), sections_[i].prefix));
    }
    if (!problems_.empty()) return std::unexpected(std::move(problems_));
    return snapshots;
  }

 private:
  void append(Problems more) { std::ranges::move(more, std::back_inserter(problems_)); }

  using BySource = std::array<std::optional<Given>, 4>;  // by Origin::Kind, the stronger later

  // Whether the path is the table of some key: an empty table of that name sets nothing, but is not misspelt.
  bool is_table(const std::string& path) const {
    const auto after = names_.lower_bound(path + ".");
    return after != names_.end() && after->first.starts_with(path + ".");
  }

  void give(const Meaning& meaning, Origin origin, const std::string& spelling, const Raw& raw) {
    const Schema& schema = *sections_[meaning.section].schema;
    const KeySpec& spec = schema.entries()[meaning.name.index].spec;
    const std::string shown = spec.secret ? std::string(redacted) : format_raw(raw);
    const auto refuse = [&](std::string rule) {
      problems_.push_back({origin.text, spelling, shown, std::move(rule)});
    };
    if (!spec.built) return refuse("this feature is not built yet");
    auto& held = given_[meaning.section][meaning.name.index][static_cast<std::size_t>(origin.kind)];
    if (held && held->spelling != spelling)
      return refuse(fmt::format("is the same key as {}, which is also given ({})", held->spelling,
                                held->held.origin.text));
    auto value = schema.accept(meaning.name.index, raw, meaning.name.unit);
    if (!value) return refuse(value.error());
    held = Given{spelling, {*std::move(value), std::move(origin)}};
  }

  // The same key of the services of the process, or of one that runs alone.
  std::string with_other_prefixes(const std::string& name) const {
    std::vector<std::string> found;
    for (const Section& section : sections_)
      if (const std::string full = full_name(section.prefix, name); names_.contains(full))
        found.push_back(full);
    if (const std::size_t dot = name.find('.'); found.empty() && dot != name.npos)
      if (const std::string rest = name.substr(dot + 1); names_.contains(rest)) found.push_back(rest);
    return fmt::format("{}", fmt::join(found, " or "));
  }

  void unknown(const Names& known, std::string where, const std::string& name, const Raw& raw) {
    std::vector<std::string_view> words;
    for (const auto& [word, meaning] : known) words.push_back(word);
    std::string rule = "unknown key";
    if (const std::string elsewhere = with_other_prefixes(name); !elsewhere.empty())
      rule += fmt::format(", did you mean {}?", elsewhere);
    else if (const auto near = suggest(name, words))
      rule += fmt::format(", did you mean {}?", *near);
    problems_.push_back({std::move(where), name, format_raw(raw), std::move(rule)});
  }

  SnapshotPtr effective(std::size_t section, std::uint64_t version) const {
    const Schema& schema = *sections_[section].schema;
    std::vector<Snapshot::Held> values;
    for (std::size_t i = 0; i < schema.entries().size(); ++i) {
      Snapshot::Held held{schema.entries()[i].default_value, {}};
      for (const auto& given : given_[section][i])
        if (given) held = given->held;
      values.push_back(std::move(held));
    }
    return std::make_shared<const Snapshot>(schema, std::move(values), version);
  }

  std::span<const Section> sections_;
  Names names_;
  Names variables_;
  std::vector<std::vector<BySource>> given_;
  Problems problems_;
};

}  // namespace

std::expected<std::vector<SnapshotPtr>, Problems> load(std::span<const Section> sections,
                                                       const Sources& sources, std::uint64_t version) {
  Loader loader(sections);
  if (sources.file) loader.read_file(*sources.file);
  loader.read_environment(sources);
  loader.read_settings(sources.settings);
  return loader.finish(version);
}

std::expected<SnapshotPtr, Problems> load(const Schema& schema, const Sources& sources,
                                          std::uint64_t version) {
  const Section alone{{}, &schema};
  auto snapshots = load(std::span(&alone, 1), sources, version);
  if (!snapshots) return std::unexpected(std::move(snapshots.error()));
  return (*snapshots)[0];
}

std::optional<Setting> parse_setting(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos) return std::nullopt;
  return Setting{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

std::string environment_name(std::string_view key) {
  std::string name = "CAIRN_";
  for (const char c : key) {
    if (c == '.')
      name += "__";
    else
      name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

Problems check_danger(const Snapshot& snapshot, std::string_view prefix) {
  const Schema& schema = snapshot.schema();
  Problems problems;
  const auto permit = schema.danger_key();
  if (permit && std::get<bool>(snapshot.at(*permit).value)) return problems;
  for (std::size_t i = 0; i < schema.entries().size(); ++i) {
    const Entry& entry = schema.entries()[i];
    if (!entry.danger_above || compare(snapshot.at(i).value, *entry.danger_above) <= 0) continue;
    const std::string limit = format_value(*entry.danger_above, entry.spec.choices);
    std::string rule = permit ? fmt::format("above {} needs {} = true", limit,
                                            full_name(prefix, schema.entries()[*permit].spec.name))
                              : fmt::format("must be at most {}", limit);
    problems.push_back(problem_of(snapshot, i, prefix, std::move(rule)));
  }
  return problems;
}

Problems check_rules(const Snapshot& snapshot, std::string_view prefix) {
  Problems problems;
  for (const Rule& rule : snapshot.schema().rules())
    if (auto broken = rule.broken(snapshot))
      problems.push_back(problem_of(snapshot, rule.key, prefix, *std::move(broken)));
  return problems;
}

std::string format_problem(const Problem& problem) {
  if (problem.key.empty()) return fmt::format("{}: {}", problem.where, problem.rule);
  return fmt::format("{}: {} = {}: {}", problem.where, problem.key, problem.value, problem.rule);
}

std::string format_problems(std::span<const Problem> problems) {
  std::string text;
  for (const Problem& problem : problems) text += format_problem(problem) + "\n";
  return text;
}

}  // namespace cairn::config
