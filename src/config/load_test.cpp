#include "config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/reload.h"

namespace cairn::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class Kind : std::uint8_t { embedded, ram };

// A small service of every type.
struct Example {
  Schema schema;
  Key<std::int64_t> count = schema.add<std::int64_t>({.name = "pool.count",
                                                      .default_value = "4",
                                                      .doc = "How many.",
                                                      .min = "1",
                                                      .max = "100",
                                                      .other_names = {{"workers"}},
                                                      .danger_above = "50"});
  Key<Duration> wait = schema.add<Duration>({.name = "pool.wait",
                                             .default_value = "5s",
                                             .doc = "How long.",
                                             .other_names = {{"wait_secs", Unit::seconds}}});
  Key<Kind> kind = schema.add<Kind>({.name = "storage.kind",
                                     .default_value = "embedded",
                                     .doc = "Where.",
                                     .reload = Reload::restart,
                                     .choices = {"embedded", "ram"}});
  Key<Bytes> room = schema.add<Bytes>(
      {.name = "storage.room", .default_value = "1MiB", .doc = "How much.", .reload = Reload::restart});
  Key<std::vector<std::string>> peers =
      schema.add<std::vector<std::string>>({.name = "peers", .default_value = "", .doc = "Who."});
  Key<std::string> token = schema.add<std::string>(
      {.name = "token",
       .default_value = "",
       .doc = "A secret.",
       .check = Check{"short", [](const Value& v) { return std::get<std::string>(v).size() < 9; }},
       .secret = true});
  Key<bool> tls =
      schema.add<bool>({.name = "tls.enabled", .default_value = "false", .doc = "Later.", .built = false});
  Key<bool> danger = schema.add<bool>({.name = "safety.danger_ok", .default_value = "false", .doc = "Dare."});

  Example() {
    schema.set_danger_key(danger);
    schema.add_rule(count, "ram_is_small", [this](const Snapshot& s) -> std::optional<std::string> {
      if (s.get(kind) == Kind::ram && s.get(count) > 10) return "must be at most 10 with storage.kind = ram";
      return std::nullopt;
    });
  }
};

Sources file(std::string text) { return {.file = File{"c.toml", std::move(text)}}; }

std::vector<std::string> problems_of(const Schema& schema, const Sources& sources) {
  const auto loaded = load(schema, sources);
  std::vector<std::string> lines;
  if (!loaded)
    for (const Problem& problem : loaded.error()) lines.push_back(format_problem(problem));
  return lines;
}

TEST(Load, without_sources_everything_is_default) {
  Example e;
  const auto loaded = load(e.schema, {});
  ASSERT_TRUE(loaded);
  const Snapshot& s = **loaded;
  EXPECT_EQ(s.get(e.count), 4);
  EXPECT_EQ(s.get(e.wait), Duration::seconds(5));
  EXPECT_EQ(s.get(e.kind), Kind::embedded);
  EXPECT_EQ(s.get(e.room), Bytes::mib(1));
  EXPECT_TRUE(s.get(e.peers).empty());
  EXPECT_EQ(s.at(e.count.index).origin.text, "default");
  EXPECT_EQ(s.version(), 1u);
}

TEST(Load, flag_beats_environment_beats_file_beats_default) {
  Example e;
  Sources sources = file("[pool]\ncount = 5\nwait = \"6s\"\n[storage]\nkind = \"ram\"\n");
  sources.environment = {{"PATH", "/bin"}, {"CAIRN_POOL__COUNT", "6"}, {"CAIRN_POOL__WAIT", "7s"}};
  sources.settings = {{"pool.count", "7"}};

  const auto loaded = load(e.schema, sources);

  ASSERT_TRUE(loaded) << format_problems(loaded.error());
  const Snapshot& s = **loaded;
  EXPECT_EQ(s.get(e.count), 7);
  EXPECT_EQ(s.at(e.count.index).origin.text, "flag --set");
  EXPECT_EQ(s.get(e.wait), Duration::seconds(7));
  EXPECT_EQ(s.at(e.wait.index).origin.text, "environment CAIRN_POOL__WAIT");
  EXPECT_EQ(s.get(e.kind), Kind::ram);
  EXPECT_EQ(s.at(e.kind.index).origin.text, "c.toml:5:8");
  EXPECT_EQ(s.get(e.room), Bytes::mib(1));
}

TEST(Load, the_later_flag_wins) {
  Example e;
  const auto loaded = load(e.schema, {.settings = {{"pool.count", "7"}, {"pool.count", "8", "--count"}}});
  ASSERT_TRUE(loaded);
  EXPECT_EQ((*loaded)->get(e.count), 8);
  EXPECT_EQ((*loaded)->at(e.count.index).origin.text, "flag --count");
}

TEST(Load, every_problem_is_told_with_its_place) {
  Example e;
  Sources sources = file(
      "peers = \"a\"\n"
      "[pool]\n"
      "count = 0\n"
      "wait = 5\n"
      "cuont = 3\n"
      "[storage]\n"
      "kind = \"tape\"\n"
      "room = { a = 1 }\n");
  sources.environment = {{"CAIRN_POOL__WAIT", "soon"}};
  sources.settings = {{"pool.count", "101"}};
  EXPECT_THAT(
      problems_of(e.schema, sources),
      ElementsAre("c.toml:1:9: peers = \"a\": must be a list of texts",
                  "c.toml:3:9: pool.count = 0: must be between 1 and 100",
                  "c.toml:4:8: pool.wait = 5: must be a duration such as 250ms, 5s, 1m, 2h or 30d",
                  "c.toml:5:9: pool.cuont = 3: unknown key, did you mean pool.count?",
                  "c.toml:7:8: storage.kind = \"tape\": must be one of embedded, ram",
                  "c.toml:8:14: storage.room.a = 1: unknown key, did you mean storage.room?",
                  "environment CAIRN_POOL__WAIT: CAIRN_POOL__WAIT = \"soon\": must be a duration such as "
                  "250ms, 5s, 1m, 2h or 30d",
                  "flag --set: pool.count = \"101\": must be between 1 and 100"));
}

TEST(Load, text_that_is_not_toml_is_one_problem_on_one_line) {
  Example e;
  const auto lines = problems_of(e.schema, file("[pool\ncount = 1\n"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("c.toml:1:"));
  EXPECT_THAT(lines[0], HasSubstr("not TOML"));
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
}

TEST(Load, two_spellings_of_one_key_are_a_problem) {
  Example e;
  EXPECT_THAT(
      problems_of(e.schema, file("workers = 5\n[pool]\ncount = 6\n")),
      ElementsAre(
          "c.toml:3:9: pool.count = 6: is the same key as workers, which is also given (c.toml:1:11)"));
}

TEST(Load, another_spelling_in_a_stronger_source_just_wins) {
  Example e;
  Sources sources = file("workers = 5\nwait_secs = 9\n");
  sources.environment = {{"CAIRN_POOL__COUNT", "6"}};
  sources.settings = {{"wait_secs", "8"}};
  const auto loaded = load(e.schema, sources);
  ASSERT_TRUE(loaded) << format_problems(loaded.error());
  EXPECT_EQ((*loaded)->get(e.count), 6);
  EXPECT_EQ((*loaded)->get(e.wait), Duration::seconds(8));
}

TEST(Load, an_overridden_bad_value_is_still_a_problem) {
  Example e;
  Sources sources = file("workers = 0\n");
  sources.settings = {{"pool.count", "5"}};
  EXPECT_THAT(problems_of(e.schema, sources),
              ElementsAre("c.toml:1:11: workers = 0: must be between 1 and 100"));
}

TEST(Load, a_feature_that_is_not_built_is_refused_in_those_words) {
  Example e;
  EXPECT_THAT(problems_of(e.schema, file("tls.enabled = true\n")),
              ElementsAre("c.toml:1:15: tls.enabled = true: this feature is not built yet"));
}

TEST(Load, danger_needs_permission) {
  Example e;
  EXPECT_TRUE(problems_of(e.schema, file("workers = 50\n")).empty());
  EXPECT_THAT(problems_of(e.schema, file("workers = 51\n")),
              ElementsAre("c.toml:1:11: pool.count = 51: above 50 needs safety.danger_ok = true"));
  EXPECT_TRUE(problems_of(e.schema, file("workers = 51\nsafety.danger_ok = true\n")).empty());
}

TEST(Load, rules_between_keys_are_checked) {
  Example e;
  EXPECT_THAT(problems_of(e.schema, file("pool.count = 11\nstorage.kind = \"ram\"\n")),
              ElementsAre("c.toml:1:14: pool.count = 11: must be at most 10 with storage.kind = ram"));
}

TEST(Load, a_secret_is_not_shown_in_a_problem) {
  Example e;
  EXPECT_THAT(problems_of(e.schema, file("token = \"hunter2hunter2\"\n")),
              ElementsAre("c.toml:1:9: token = [redacted]: must be short"));
}

TEST(Load, an_unknown_variable_is_a_problem_and_its_value_is_not_shown) {
  Example e;
  Sources sources;
  sources.environment = {{"CAIRN_POOL__CONT", "5"}, {"CAIRN_URL", "x"}, {"HOME", "/"}};
  sources.other_variables = {"CAIRN_URL"};
  EXPECT_THAT(
      problems_of(e.schema, sources),
      ElementsAre("environment: CAIRN_POOL__CONT = ...: unknown key, did you mean CAIRN_POOL__COUNT?"));
}

TEST(Load, an_empty_table_is_fine_unless_misspelt) {
  Example e;
  EXPECT_TRUE(problems_of(e.schema, file("[pool]\n[storage]\n")).empty());
  EXPECT_THAT(problems_of(e.schema, file("[stroage]\n")),
              ElementsAre(HasSubstr("stroage = {}: unknown key")));
}

TEST(Load, a_quoted_key_with_dots_is_not_the_dotted_key) {
  Example e;
  EXPECT_THAT(problems_of(e.schema, file("\"pool.count\" = 5\n")), ElementsAre(HasSubstr("unknown key")));
}

TEST(Load, what_the_toml_library_mishandles_is_refused_first) {
  Example e;
  EXPECT_THAT(problems_of(e.schema, file("peers = [\"h\xc3\xa9\"]  # \xc3\xa9\n")), ElementsAre());
  EXPECT_THAT(problems_of(e.schema, file("\xef\xbb\xbfworkers = 5\n")), ElementsAre());
  EXPECT_THAT(problems_of(e.schema, file("workers = 5\nw\xc3\xa9 = 5\n")),
              ElementsAre("c.toml:2:2: only texts and comments may go beyond ASCII"));
  EXPECT_THAT(problems_of(e.schema, file("workers = 1\"\xc3\xa9\"\n")),
              ElementsAre("c.toml:1:12: a text starts after a blank or one of = , [ {"));
  EXPECT_THAT(problems_of(e.schema, file("token = \"\"\"x\"\"\"\n")),
              ElementsAre("c.toml:1:9: a text is on one line"));
  EXPECT_THAT(problems_of(e.schema, file("token = \"a\\\"\xc3\xa9\" # '\nworkers = 5\n")), ElementsAre());
}

TEST(Load, absurd_files_are_refused_unread) {
  Example e;
  std::string deep = "a";
  for (int i = 0; i < 5000; ++i) deep += ".a";
  EXPECT_THAT(problems_of(e.schema, file(deep + " = 1\n")), ElementsAre(HasSubstr("nested too deeply")));
  EXPECT_THAT(problems_of(e.schema, file(std::string(300 * 1024, '#'))),
              ElementsAre(HasSubstr("at most 256 KiB")));
}

TEST(Load, in_one_file_each_service_has_its_table) {
  Example registry;
  Example edge;
  const std::vector<Section> sections{{"registry", &registry.schema}, {"edge", &edge.schema}};
  Sources sources = file("[registry.storage]\nroom = \"2MiB\"\n[edge.pool]\ncount = 9\n");
  sources.environment = {{"CAIRN_REGISTRY__STORAGE__KIND", "ram"}};
  sources.settings = {{"edge.workers", "8"}};

  const auto loaded = load(sections, sources, 3);

  ASSERT_TRUE(loaded) << format_problems(loaded.error());
  EXPECT_EQ((*loaded)[0]->get(registry.kind), Kind::ram);
  EXPECT_EQ((*loaded)[0]->get(registry.room), Bytes::mib(2));
  EXPECT_EQ((*loaded)[0]->get(registry.count), 4);
  EXPECT_EQ((*loaded)[1]->get(edge.kind), Kind::embedded);
  EXPECT_EQ((*loaded)[1]->get(edge.count), 8);
  EXPECT_EQ((*loaded)[1]->version(), 3u);
}

TEST(Load, problems_under_a_prefix_name_the_whole_key) {
  Example e;
  const std::vector<Section> sections{{"edge", &e.schema}};
  const auto loaded = load(sections, file("pool.count = 5\n[edge]\nworkers = 60\n"));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(format_problems(loaded.error()),
            "c.toml:1:14: pool.count = 5: unknown key, did you mean edge.pool.count?\n"
            "c.toml:3:11: edge.pool.count = 60: above 50 needs edge.safety.danger_ok = true\n");
}

TEST(Load, a_key_without_its_prefix_or_with_one_too_many_is_told_with_the_right_one) {
  Example e;
  const std::vector<Section> shared{{"edge", &e.schema}, {"registry", &e.schema}}, alone{{"", &e.schema}};
  const auto unprefixed = load(shared, file("workers = 5\n"));
  ASSERT_FALSE(unprefixed);
  EXPECT_THAT(format_problems(unprefixed.error()),
              testing::HasSubstr("did you mean edge.workers or registry.workers?"));
  const auto prefixed = load(alone, file("[registry]\nworkers = 5\n"));
  ASSERT_FALSE(prefixed);
  EXPECT_THAT(format_problems(prefixed.error()), testing::HasSubstr("unknown key, did you mean workers?"));
}

TEST(Load, a_set_flag_is_split_at_its_first_equals_sign) {
  ASSERT_TRUE(parse_setting("a.b=c=d"));
  EXPECT_EQ(parse_setting("a.b=c=d")->key, "a.b");
  EXPECT_EQ(parse_setting("a.b=c=d")->value, "c=d");
  EXPECT_EQ(parse_setting("a=")->value, "");
  EXPECT_FALSE(parse_setting("=x"));
  EXPECT_FALSE(parse_setting("x"));
}

SnapshotPtr loaded(const Schema& schema, std::string text) {
  auto result = load(schema, file(std::move(text)), 5);
  EXPECT_TRUE(result) << format_problems(result.error());
  return *result;
}

TEST(Reload, live_keys_change_and_restart_keys_stay_and_are_reported) {
  Example e;
  const auto before = loaded(e.schema, "pool.count = 5\nstorage.room = \"1MiB\"\n");
  const auto after = loaded(e.schema, "pool.count = 6\nstorage.room = \"2MiB\"\npeers = [\"a\"]\n");

  const auto reloaded = reload(*before, *after);

  ASSERT_TRUE(reloaded);
  EXPECT_THAT(reloaded->changes.live, ElementsAre(e.count.index, e.peers.index));
  EXPECT_THAT(reloaded->changes.restart, ElementsAre(e.room.index));
  EXPECT_EQ(reloaded->snapshot->get(e.count), 6);
  EXPECT_EQ(reloaded->snapshot->get(e.room), Bytes::mib(1));
  EXPECT_EQ(reloaded->snapshot->version(), 6u);
}

TEST(Reload, nothing_changed_is_empty) {
  Example e;
  const auto before = loaded(e.schema, "pool.count = 5\n");
  EXPECT_TRUE(diff(*before, *loaded(e.schema, "workers = 5\n")).empty());
}

TEST(Reload, new_live_values_must_agree_with_the_old_restart_values) {
  Example e;
  const auto before = loaded(e.schema, "storage.kind = \"ram\"\npool.count = 5\n");
  const auto after = loaded(e.schema, "storage.kind = \"embedded\"\npool.count = 40\n");
  const auto reloaded = reload(*before, *after);
  ASSERT_FALSE(reloaded);
  EXPECT_THAT(format_problems(reloaded.error()), HasSubstr("must be at most 10 with storage.kind = ram"));
}

using SchemaDeathTest = testing::Test;

TEST(SchemaDeathTest, declarations_that_contradict_themselves_are_bugs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Example e;
  EXPECT_DEATH(e.schema.add<std::int64_t>({.name = "x", .default_value = "0", .doc = "X.", .min = "1"}), "");
  EXPECT_DEATH(e.schema.add<std::int64_t>({.name = "x", .default_value = "five", .doc = "X."}), "");
  EXPECT_DEATH(e.schema.add<std::int64_t>({.name = "pool.count", .default_value = "5", .doc = "X."}), "");
  EXPECT_DEATH(e.schema.add<std::int64_t>({.name = "workers", .default_value = "5", .doc = "X."}), "");
  EXPECT_DEATH(
      e.schema.add<std::int64_t>({.name = "x", .default_value = "9", .doc = "X.", .danger_above = "8"}), "");
  EXPECT_DEATH(e.schema.add<std::int64_t>({.name = "a__b", .default_value = "9", .doc = "X."}), "");
  Example other;
  const auto snapshot = loaded(e.schema, "");
  EXPECT_DEATH(static_cast<void>(snapshot->get(other.count)), "");
}

}  // namespace
}  // namespace cairn::config
