#include "http/route.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::http {
namespace {

using Outcome = RouteMatch::Outcome;

constexpr Route routes[] = {
    {1, Method::get | Method::head, "/o/{addr:Address}"},
    {2, Method::put, "/o/{addr:Address}"},
    {3, Method::get, "/o/{addr:Address}/proof"},
    {4, Method::get, "/o"},
    {5, Method::get, "/registry/head"},
    {6, Method::get, "/registry/{version:Int}"},
    {7, Method::patch | Method::head, "/uploads/{id:Id}"},
    {8, Method::get, "/names/{name:Name}/history"},
    {9, Method::get, "/edge/assets/{path:Rest}"},
    {10, Method::get, "/edge/tiles/{pack:Name}/{z:Int}/{x:Int}/{y:Segment}"},
    {11, Method::get, "/console/"},
    {12, Method::get, "/"},
};
const std::string address = "b3:" + std::string(62, '0') + "aF";

}  // namespace

TEST(Route, paths_find_their_route_by_method) {
  const RouteTable table(routes);
  const struct {
    std::string path;
    Method method;
    RouteId id;
  } rows[] = {{"/o/" + address, Method::get, 1},
              {"/o/" + address, Method::head, 1},
              {"/o/" + address, Method::put, 2},
              {"/o/" + address + "/proof", Method::get, 3},
              {"/o", Method::get, 4},
              {"/registry/head", Method::get, 5},
              {"/registry/7", Method::get, 6},
              {"/uploads/01ARZ3NDEKTSV4RRFFQ69G5FAV", Method::patch, 7},
              {"/names/a.b-c_d/history", Method::get, 8},
              {"/edge/assets/x", Method::get, 9},
              {"/edge/assets/x/y//z", Method::get, 9},
              {"/edge/tiles/world/3/4/5.mvt", Method::get, 10},
              {"/console/", Method::get, 11},
              {"/", Method::get, 12}};
  for (const auto& row : rows) {
    const RouteMatch match = table.match(row.path, row.method);
    EXPECT_EQ(match.outcome, Outcome::matched) << row.path;
    EXPECT_EQ(match.id, row.id) << row.path;
  }
}

TEST(Route, parameters_come_decoded_and_in_order) {
  const RouteTable table(routes);
  const std::string proof = "/o/" + address + "/proof";
  const RouteMatch object = table.match(proof, Method::get);
  EXPECT_EQ(object.count, 1);
  EXPECT_EQ(object.at[0].text, address);
  EXPECT_EQ(object.address, *parse_address(address));

  const std::string path = "/edge/tiles/world/3/18446744073709551615/5.mvt";
  const RouteMatch tile = table.match(path, Method::get);
  ASSERT_EQ(tile.count, 4);
  EXPECT_EQ(tile.at[0].text, "world");
  EXPECT_EQ(tile.at[1].number, 3u);
  EXPECT_EQ(tile.at[2].number, 18446744073709551615u);
  EXPECT_EQ(tile.at[3].text, "5.mvt");
  EXPECT_EQ(table.match("/edge/assets/a/b", Method::get).at[0].text, "a/b");
}

TEST(Route, an_address_is_read_like_base_reads_it) {
  const RouteTable table(routes);
  for (std::size_t at = 0; at < address.size(); ++at)
    for (int c = 1; c < 256; ++c) {
      if (c == '/') continue;
      std::string text = address;
      text[at] = static_cast<char>(c);
      const RouteMatch match = table.match("/o/" + text, Method::get);
      const auto expected = parse_address(text);
      ASSERT_EQ(match.outcome == Outcome::matched, expected.has_value()) << text;
      if (expected) ASSERT_EQ(match.address, *expected) << text;
    }
}

TEST(Route, a_parameter_that_does_not_parse_is_malformed_whatever_the_method) {
  const RouteTable table(routes);
  for (const std::string& path :
       {std::string("/o/x"), "/o/" + address + "0", "/o/" + address.substr(1), std::string("/o/"),
        std::string("/o/x/y/z"), std::string("/registry/x"), std::string("/registry/01"),
        std::string("/registry/-1"), std::string("/registry/18446744073709551616"),
        std::string("/registry/40000000000000000000"), std::string("/uploads/a.b"),
        "/uploads/" + std::string(65, 'a'), std::string("/names/.a/history"), std::string("/names/A/history"),
        "/names/" + std::string(129, 'a') + "/history", std::string("/names//history")}) {
    EXPECT_EQ(table.match(path, Method::get).outcome, Outcome::malformed) << path;
    EXPECT_EQ(table.match(path, Method::del).outcome, Outcome::malformed) << path;
  }
}

TEST(Route, other_paths_are_not_found) {
  const RouteTable table(routes);
  for (const std::string& path :
       {std::string(""), std::string("o"), std::string("*"), std::string("//"), std::string("/x"),
        std::string("/O"), std::string("/oo"), "/o/" + address + "/", "/o/" + address + "/proofs",
        "/o/" + address + "/proof/x", std::string("/registry"), std::string("/names/a"), std::string("/edge"),
        std::string("/edge/assets"), std::string("/edge/assets/"), std::string("/console"),
        std::string("/console/x"), std::string("/registry/head/x")})
    EXPECT_EQ(table.match(path, Method::get).outcome, Outcome::not_found) << path;
}

TEST(Route, a_known_path_with_another_method_tells_what_it_takes) {
  const RouteTable table(routes);
  const RouteMatch match = table.match("/o/" + address, Method::post);
  EXPECT_EQ(match.outcome, Outcome::method_not_allowed);
  char out[allow_size_max];
  EXPECT_EQ(format_allow(match.allow, out), "GET, HEAD, PUT");
}

TEST(Route, allow_lists_every_set) {
  char out[allow_size_max];
  EXPECT_EQ(format_allow({}, out), "");
  EXPECT_EQ(format_allow(Method::del, out), "DELETE");
  MethodSet all;
  for (std::size_t i = 0; i < method_count; ++i) all = all | static_cast<Method>(i);
  EXPECT_EQ(format_allow(all, out), "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, CONNECT, TRACE");
}

TEST(RouteDeathTest, a_table_that_contradicts_itself_is_not_built) {
  const auto build = [](std::initializer_list<Route> list) {
    RouteTable table(std::span(list.begin(), list.size()));
  };
  EXPECT_DEATH(build({{1, Method::get, "/a/{x:Int}"}, {2, Method::get, "/a/{x:Name}"}}), "CHECK");
  EXPECT_DEATH(build({{1, Method::get, "/a"}, {2, Method::get, "/a"}}), "CHECK");
  EXPECT_DEATH(build({{1, Method::get, "/a/{x:Rest}/b"}}), "CHECK");
  EXPECT_DEATH(build({{1, Method::get, "/a/{x:Thing}"}}), "CHECK");
  EXPECT_DEATH(build({{1, Method::get, "a"}}), "CHECK");
  EXPECT_DEATH(build({{1, {}, "/a"}}), "CHECK");
}

}  // namespace cairn::http
