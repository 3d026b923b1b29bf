#include "serve/openapi.h"

#include <gmock/gmock.h>

#include "codec/json_reader.h"
#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using http::Method;
using testing::HasSubstr;
using testing::Not;

constexpr ServiceDeclaration declaration{
    .name = "sample", .purpose = "Is looked at", .owner = "us", .last_reviewed = "2026-11-18"};
constexpr Handlers handlers{.run = Run::queued};

std::string format(std::span<const RouteSpec> routes) { return format_openapi(declaration, routes, "1.2.3"); }

// A member that is an object, from its key to its end.
std::string part_of(const std::string& document, std::string_view key) {
  const std::size_t begin = document.find("\"" + std::string(key) + "\": {");
  if (begin == std::string::npos) return {};
  const std::size_t line = document.rfind('\n', begin);
  const std::string end = "\n" + std::string(begin - line - 1, ' ') + "}";
  return document.substr(begin, document.find(end, begin) - begin);
}

TEST(Openapi, the_document_is_json_and_the_same_each_time) {
  const std::string document = format(SampleShard::routes());
  EXPECT_EQ(document, format(SampleShard::routes()));
  codec::JsonReader reader;
  EXPECT_TRUE(reader.parse(document).has_value()) << reader.detail();
  EXPECT_TRUE(
      document.starts_with("{\n  \"openapi\": \"3.1.0\",\n  \"info\": {\n    \"title\": \"cairn sample\","));
  EXPECT_TRUE(document.ends_with("\n  }\n}\n"));
}

TEST(Openapi, every_method_of_every_route_is_an_operation) {
  const std::string document = format(SampleShard::routes());
  for (const std::string_view id :
       {"get_now_by_name", "head_now_by_name", "get_job_by_ms", "post_job_by_ms", "get_throw_now",
        "get_object_by_addr", "get_healthz", "head_healthz", "get_readyz", "get_version", "get_metrics",
        "get_debug_topology", "post_admin_keys_by_id_revoke"})
    EXPECT_THAT(document, HasSubstr("\"operationId\": \"" + std::string(id) + "\"")) << id;
}

TEST(Openapi, a_pattern_becomes_a_path_with_typed_parameters) {
  constexpr RouteSpec routes[] = {{.pattern = "/a-b/{x:Address}/{y:Int}/{z:Rest}",
                                   .methods = Method::get,
                                   .summary = "Look",
                                   .handlers = handlers}};
  const std::string document = format(routes), path = part_of(document, "/a-b/{x}/{y}/{z}");
  EXPECT_THAT(path, HasSubstr("\"operationId\": \"get_a_b_by_x_by_y_by_z\""));
  for (const std::string_view kind : {"Address", "Int", "Rest"}) {
    EXPECT_THAT(path, HasSubstr("\"$ref\": \"#/components/schemas/" + std::string(kind) + "\""));
    EXPECT_NE(part_of(document, kind), "") << kind;
  }
  // What nothing refers to is not there.
  EXPECT_EQ(part_of(document, "Segment"), "");
}

TEST(Openapi, a_capability_is_asked_for_as_the_table_says) {
  constexpr RouteSpec routes[] = {
      {.pattern = "/open", .methods = Method::get, .summary = "Look", .handlers = handlers},
      {.pattern = "/read",
       .methods = Method::get,
       .summary = "Read",
       .handlers = handlers,
       .op = "sample.read",
       .asked = Asked::of_reads},
      {.pattern = "/write",
       .methods = Method::put,
       .summary = "Write",
       .handlers = handlers,
       .op = "sample.write"}};
  const std::string document = format(routes);
  EXPECT_THAT(part_of(document, "/open"), Not(HasSubstr("security")));
  const std::string read = part_of(document, "/read"), write = part_of(document, "/write");
  EXPECT_THAT(read, HasSubstr("`sample.read` where `auth.reads = required`"));
  EXPECT_THAT(read, HasSubstr("\"security\": [\n          {},\n"));
  EXPECT_THAT(write, HasSubstr("Needs a capability for `sample.write`."));
  EXPECT_THAT(write, Not(HasSubstr("{},")));
  EXPECT_THAT(part_of(document, "/admin/keys/{id}/revoke"), HasSubstr("\"sample.admin\""));
}

TEST(Openapi, what_is_sent_and_answered_is_told) {
  static constexpr ParameterSpec query[] = {{"limit", "How many", "Int", false, 1, 1000},
                                            {"of", "Whose", {}, true}};
  static constexpr ParameterSpec told[] = {{"ETag", "Its tag", {}, true}, {"X-Size", "Its size", "Int"}};
  static constexpr EventSpec events[] = {{"came", "ls"}, {"lagged", "get"}};
  static constexpr ParameterSpec fields[] = {{"Range", "Which"}, {"If-Match", "Tags"}};
  static constexpr BodySpec bodies[] = {{"application/json", "ls"}, {"application/cbor"}};
  static constexpr AnswerSpec answers[] = {{200, "Both", {"application/json", "ls"}, told},
                                           {200, "", {"application/cbor"}},
                                           {201, "As they come", {"text/event-stream", {}, events}},
                                           {204, "None"},
                                           {206, "Some", {"*/*"}}};
  constexpr RouteSpec routes[] = {{.pattern = "/x",
                                   .methods = Method::get | Method::head,
                                   .summary = "List",
                                   .handlers = handlers,
                                   .query = query,
                                   .fields = fields,
                                   .answers = answers},
                                  {.pattern = "/x",
                                   .methods = Method::post,
                                   .summary = "Add",
                                   .handlers = handlers,
                                   .takes = Takes::body,
                                   .bodies = bodies,
                                   .needs_body = true},
                                  {.pattern = "/any",
                                   .methods = Method::put,
                                   .summary = "Keep",
                                   .handlers = handlers,
                                   .takes = Takes::body}};
  const std::string document = format(routes), path = part_of(document, "/x");
  const std::string get = part_of(path, "get"), head = part_of(path, "head"), post = part_of(path, "post");
  EXPECT_THAT(get, HasSubstr("\"summary\": \"List\""));
  EXPECT_THAT(get, HasSubstr("\"name\": \"limit\",\n            \"in\": \"query\""));
  EXPECT_THAT(part_of(get, "200"), HasSubstr("\"$ref\": \"../schemas/ls.json\""));
  EXPECT_THAT(part_of(get, "200"), HasSubstr("\"application/cbor\": {}"));
  EXPECT_THAT(part_of(get, "204"), Not(HasSubstr("content")));
  EXPECT_THAT(get, HasSubstr("\"minimum\": 1,\n              \"maximum\": 1000"));
  for (const std::string& answer : {part_of(get, "200"), part_of(head, "200")}) {
    EXPECT_THAT(part_of(answer, "ETag"), HasSubstr("\"required\": true"));
    EXPECT_THAT(part_of(answer, "X-Size"), HasSubstr("schemas/Int"));
    EXPECT_THAT(part_of(answer, "X-Size"), Not(HasSubstr("required")));
  }
  EXPECT_THAT(part_of(get, "204"), Not(HasSubstr("ETag")));
  EXPECT_THAT(part_of(get, "lagged"), HasSubstr("../schemas/get.json"));
  EXPECT_THAT(get, Not(HasSubstr("requestBody")));
  // The same without what HEAD has not.
  EXPECT_THAT(head, HasSubstr("\"summary\": \"List (the head alone)\""));
  EXPECT_THAT(head, HasSubstr("\"name\": \"limit\""));
  EXPECT_THAT(part_of(head, "200"), Not(HasSubstr("content")));
  EXPECT_THAT(head, HasSubstr("\"name\": \"If-Match\""));
  for (const std::string_view ranged : {"\"name\": \"Range\"", "\"206\""}) {
    EXPECT_THAT(get, HasSubstr(ranged));
    EXPECT_THAT(head, Not(HasSubstr(ranged)));
  }
  EXPECT_THAT(part_of(post, "requestBody"), HasSubstr("\"required\": true"));
  EXPECT_THAT(part_of(post, "requestBody"), HasSubstr("\"application/cbor\": {}"));
  EXPECT_THAT(part_of(part_of(document, "/any"), "requestBody"), HasSubstr("\"*/*\": {}"));
  for (const std::string& one : {get, head, post})
    EXPECT_THAT(part_of(one, "default"), HasSubstr("\"$ref\": \"#/components/responses/Error\""));
}

TEST(Openapi, an_error_has_every_public_code_and_no_other) {
  const std::string error = part_of(part_of(format({}), "schemas"), "Error");
  for (int i = 0; i <= static_cast<int>(ErrorCode::invalid); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const auto quoted = HasSubstr("            \"" + std::string(name_of(code)) + "\"");
    if (code != ErrorCode::ok && status_of(code) != 0)
      EXPECT_THAT(error, quoted);
    else
      EXPECT_THAT(error, Not(quoted)) << name_of(code);
  }
}

}  // namespace
}  // namespace cairn::serve
