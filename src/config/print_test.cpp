#include "config/print.h"

#include <gtest/gtest.h>

#include <string>

#include "config/load.h"

namespace cairn::config {
namespace {

enum class Kind : std::uint8_t { disk, ram };

struct Example {
  Schema schema;
  Key<std::int64_t> count = schema.add<std::int64_t>({.name = "pool.count",
                                                      .default_value = "4",
                                                      .doc = "How many | how few.",
                                                      .min = "1",
                                                      .max = "100",
                                                      .other_names = {{"workers"}},
                                                      .danger_above = "50"});
  Key<Duration> wait = schema.add<Duration>({.name = "pool.wait",
                                             .default_value = "5s",
                                             .doc = "How long.",
                                             .reload = Reload::restart,
                                             .other_names = {{"wait_secs", Unit::seconds}}});
  Key<Kind> kind = schema.add<Kind>(
      {.name = "storage.kind", .default_value = "disk", .doc = "Where.", .choices = {"disk", "ram"}});
  Key<std::vector<std::string>> peers =
      schema.add<std::vector<std::string>>({.name = "peers", .default_value = "", .doc = "Who."});
  Key<std::string> token =
      schema.add<std::string>({.name = "token", .default_value = "", .doc = "A secret.", .secret = true});
  Key<bool> tls =
      schema.add<bool>({.name = "tls.enabled", .default_value = "false", .doc = "Later.", .built = false});
  Key<bool> danger = schema.add<bool>({.name = "safety.danger_ok", .default_value = "false", .doc = "Dare."});

  Example() { schema.set_danger_key(danger); }
  SnapshotPtr snapshot() const {
    Sources sources;
    sources.file = File{"c.toml", "peers = [\"a\", \"b\\\"c\"]\ntoken = \"hunter2\"\n"};
    sources.environment = {{"CAIRN_POOL__WAIT", "90s"}};
    sources.settings = {{"storage.kind", "ram"}};
    auto loaded = load(schema, sources);
    EXPECT_TRUE(loaded) << format_problems(loaded.error());
    return *loaded;
  }
};

TEST(Print, text_shows_values_and_where_they_came_from) {
  EXPECT_EQ(show_text(*Example().snapshot()),
            "pool.count = 4            # default\n"
            "pool.wait = \"90s\"         # environment CAIRN_POOL__WAIT\n"
            "storage.kind = \"ram\"      # flag --set\n"
            "peers = [\"a\", \"b\\\"c\"]     # c.toml:1:9\n"
            "token = \"[redacted]\"      # c.toml:2:9\n"
            "safety.danger_ok = false  # default\n");
}

TEST(Print, json_is_one_object_a_line) {
  EXPECT_EQ(
      show_json(*Example().snapshot(), "edge"),
      R"({"key":"edge.pool.count","value":4,"origin":"default","reload":"live"})"
      "\n"
      R"({"key":"edge.pool.wait","value":"90s","origin":"environment CAIRN_POOL__WAIT","reload":"restart"})"
      "\n"
      R"({"key":"edge.storage.kind","value":"ram","origin":"flag --set","reload":"live"})"
      "\n"
      R"({"key":"edge.peers","value":["a", "b\"c"],"origin":"c.toml:1:9","reload":"live"})"
      "\n"
      R"({"key":"edge.token","value":"[redacted]","origin":"c.toml:2:9","reload":"live"})"
      "\n"
      R"({"key":"edge.safety.danger_ok","value":false,"origin":"default","reload":"live"})"
      "\n");
}

TEST(Print, written_toml_loads_to_the_same_values) {
  Example e;
  const auto before = e.snapshot();
  const auto after = load(e.schema, {.file = File{"again.toml", write_toml(*before)}});
  ASSERT_TRUE(after) << format_problems(after.error());
  for (std::size_t i = 0; i < e.schema.entries().size(); ++i)
    EXPECT_EQ(before->at(i).value, (*after)->at(i).value) << e.schema.entries()[i].spec.name;
}

TEST(Print, help_says_type_range_default_and_reload) {
  const std::string help = help_text(Example().schema);
  EXPECT_NE(help.find("  pool.count  (integer, between 1 and 100; default 4; live)\n"
                      "      How many | how few. Above 50 needs safety.danger_ok.\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("  storage.kind  (disk or ram; default \"disk\"; live)\n"), std::string::npos) << help;
  EXPECT_NE(help.find("      Later. Not built yet.\n"), std::string::npos) << help;
}

TEST(Print, docs_have_a_row_per_key) {
  const std::string docs = docs_markdown(Example().schema, "edge");
  EXPECT_NE(docs.find("# Configuration of edge\n"), std::string::npos);
  EXPECT_NE(docs.find("`CAIRN_EDGE__`"), std::string::npos);
  EXPECT_NE(
      docs.find(
          "| `pool.count` | integer, between 1 and 100 | `4` | live | `CAIRN_POOL__COUNT` | `workers` | "
          "How many \\| how few. Above 50 needs safety.danger_ok. |\n"),
      std::string::npos)
      << docs;
  EXPECT_NE(docs.find("| `wait_secs (seconds)` |"), std::string::npos) << docs;
  EXPECT_NE(docs.find("**Not built yet: refused.** |"), std::string::npos) << docs;
}

}  // namespace
}  // namespace cairn::config
