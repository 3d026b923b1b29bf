#include "serve/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "codec/json_writer.h"
#include "serve/pipeline.h"

namespace cairn::serve {
namespace {

using codec::JsonWriter;
using http::Method;

constexpr std::string_view schema_place = "#/components/schemas/";

// The parameter kinds of http/route.h, as JSON Schema.
struct Kind {
  std::string_view name;
  std::string_view pattern;  // empty: any text that is not empty
  std::string_view about;
};
constexpr Kind kinds[] = {
    {"Address", "^b3:[0-9a-fA-F]{64}$", "The BLAKE3 hash of the bytes it names"},
    {"Name", "^[a-z0-9][a-z0-9._-]{0,127}$", "A name"},
    {"Id", "^[A-Za-z0-9_-]{1,64}$", "What the service called it"},
    {"Int", "", "0 to 2^64-1, without leading zeros"},
    {"Segment", "", "One segment of a path"},
    {"Rest", "", "All that is left of the path; its slashes are not escaped"},
};

// In the order of OpenAPI documents.
struct Verb {
  Method method;
  std::string_view key;
};
constexpr Verb verbs[] = {{Method::get, "get"},        {Method::head, "head"},   {Method::put, "put"},
                          {Method::post, "post"},      {Method::patch, "patch"}, {Method::del, "delete"},
                          {Method::options, "options"}};

struct PathParameter {
  std::string_view name, kind;
};

// Walks over the segments of a pattern: calls `literal` or `parameter` for each.
template <class Literal, class Parameter>
void walk(std::string_view pattern, Literal literal, Parameter parameter) {
  while (!pattern.empty()) {
    pattern.remove_prefix(1);  // the slash
    const std::string_view segment = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(segment.size());
    if (!segment.starts_with('{')) {
      literal(segment);
      continue;
    }
    const std::size_t colon = segment.find(':');
    parameter(
        PathParameter{segment.substr(1, colon - 1), segment.substr(colon + 1, segment.size() - colon - 2)});
  }
}

// `/o/{address:Address}/proof`: `/o/{address}/proof`.
std::string path_of(std::string_view pattern) {
  std::string path;
  walk(
      pattern, [&](std::string_view literal) { path += fmt::format("/{}", literal); },
      [&](const PathParameter& one) { path += fmt::format("/{{{}}}", one.name); });
  return path;
}

// `get_o_by_address_proof`. It is made from the method and the pattern, so that no two operations have the
// same id.
std::string operation_id(std::string_view verb, std::string_view pattern) {
  std::string id(verb);
  walk(
      pattern,
      [&](std::string_view literal) {
        id += '_';
        for (const char c : literal) id += c == '-' || c == '.' ? '_' : c;
      },
      [&](const PathParameter& one) { id += fmt::format("_by_{}", one.name); });
  return id;
}

void write_reference(JsonWriter& json, std::string_view to) {
  json.begin_object().field("$ref", to).end_object();
}

void write_kind(JsonWriter& json, const ParameterSpec& spec) {
  json.key("schema").begin_object();
  if (spec.kind.empty())
    json.field("type", "string");
  else
    json.field("$ref", fmt::format("{}{}", schema_place, spec.kind));
  if (spec.most > 0) json.field("minimum", spec.least).field("maximum", spec.most);
  json.end_object();
}

void write_parameter(JsonWriter& json, std::string_view in, const ParameterSpec& spec) {
  json.begin_object().field("name", spec.name).field("in", in);
  if (!spec.about.empty()) json.field("description", spec.about);
  if (spec.required) json.field("required", true);
  write_kind(json, spec);
  json.end_object();
}

// The name is the key.
void write_header(JsonWriter& json, const ParameterSpec& spec) {
  json.key(spec.name).begin_object().field("description", spec.about);
  if (spec.required) json.field("required", true);
  write_kind(json, spec);
  json.end_object();
}

void write_content(JsonWriter& json, const BodySpec& body) {
  json.key(body.type).begin_object();
  if (!body.schema.empty()) {
    json.key("schema");
    write_reference(json, fmt::format("../schemas/{}.json", body.schema));
  }
  // OpenAPI has no words for the events of a stream.
  if (!body.events.empty()) json.key("x-events").begin_object();
  for (const EventSpec& event : body.events) {
    json.key(event.name);
    write_reference(json, fmt::format("../schemas/{}.json", event.schema));
  }
  if (!body.events.empty()) json.end_object();
  json.end_object();
}

void write_request_body(JsonWriter& json, const RouteSpec& spec) {
  json.key("requestBody").begin_object();
  if (spec.needs_body) json.field("required", true);
  json.key("content").begin_object();
  if (spec.bodies.empty()) write_content(json, {.type = "*/*"});
  for (const BodySpec& body : spec.bodies) write_content(json, body);
  json.end_object().end_object();
}

// A range is asked for with GET alone (RFC 9110, 14.2).
bool is_of_ranges(const ParameterSpec& field) { return field.name == "Range" || field.name == "If-Range"; }
constexpr int partial_content = 206;

// The answers to HEAD have no body, even where GET's have one.
void write_responses(JsonWriter& json, std::span<const AnswerSpec> answers, bool head) {
  json.key("responses").begin_object();
  while (!answers.empty()) {
    const AnswerSpec& first = answers.front();
    const auto same = static_cast<std::size_t>(
        std::ranges::find_if(answers, [&](const AnswerSpec& one) { return one.status != first.status; }) -
        answers.begin());
    const auto lines = answers.first(same);
    answers = answers.subspan(same);
    if (head && first.status == partial_content) continue;
    json.key(fmt::format("{}", first.status)).begin_object().field("description", first.about);
    json.key("headers").begin_object().key("X-Corr-ID");
    write_reference(json, "#/components/headers/X-Corr-ID");
    for (const ParameterSpec& field : first.fields) write_header(json, field);
    json.end_object();
    if (!head && !first.body.type.empty()) {
      json.key("content").begin_object();
      for (const AnswerSpec& one : lines) write_content(json, one.body);
      json.end_object();
    }
    json.end_object();
  }
  json.key("default");
  write_reference(json, "#/components/responses/Error");
  json.end_object();
}

// An empty requirement beside the other says that the token is optional.
void write_security(JsonWriter& json, const RouteSpec& spec) {
  const std::string_view op = spec.op.empty() ? spec.op_of_handler : spec.op;
  if (op.empty() && !spec.is_passed_on) return;
  json.key("security").begin_array();
  if (spec.asked == Asked::of_reads || spec.is_passed_on) json.begin_object().end_object();
  json.begin_object().key("capability").begin_array();
  if (!op.empty()) json.value(op);
  json.end_array().end_object().end_array();
}

std::string describe(const RouteSpec& spec) {
  if (spec.is_passed_on) return "The service behind asks for the capability that it needs.";
  const std::string_view op = spec.op.empty() ? spec.op_of_handler : spec.op;
  if (op.empty()) return "Needs no capability.";
  return fmt::format(
      "Needs a capability for `{}`{}.", op,
      spec.asked == Asked::of_reads ? " where `auth.reads = required`, and none elsewhere" : "");
}

void write_operation(JsonWriter& json, const RouteSpec& spec, const Verb& verb) {
  const bool head = verb.method == Method::head;
  const bool echo = head && spec.methods.has(Method::get);
  json.key(verb.key).begin_object();
  json.field("operationId", operation_id(verb.key, spec.pattern));
  json.field("summary", fmt::format("{}{}", spec.summary.text, echo ? " (the head alone)" : ""));
  json.field("description", describe(spec));
  if (!spec.query.empty() || !spec.fields.empty()) {
    json.key("parameters").begin_array();
    for (const ParameterSpec& one : spec.query) write_parameter(json, "query", one);
    for (const ParameterSpec& one : spec.fields)
      if (!head || !is_of_ranges(one)) write_parameter(json, "header", one);
    json.end_array();
  }
  if (spec.takes == Takes::body && !head && verb.method != Method::get) write_request_body(json, spec);
  write_responses(json, spec.answers, head);
  write_security(json, spec);
  json.end_object();
}

// Writes every route of one pattern, which may stand in several lines of the table.
void write_path(JsonWriter& json, std::span<const RouteSpec> specs, std::string_view pattern) {
  json.key(path_of(pattern)).begin_object().key("parameters").begin_array();
  walk(
      pattern, [](std::string_view) {},
      [&](const PathParameter& one) {
        write_parameter(json, "path", {.name = one.name, .about = {}, .kind = one.kind, .required = true});
      });
  write_reference(json, "#/components/parameters/X-Corr-ID");
  write_reference(json, "#/components/parameters/Request-Timeout");
  json.end_array();
  for (const RouteSpec& spec : specs) {
    if (spec.pattern != pattern) continue;
    for (const Verb& verb : verbs)
      if (spec.methods.has(verb.method)) write_operation(json, spec, verb);
  }
  json.end_object();
}

bool names(std::span<const RouteSpec> specs, std::string_view kind) {
  const auto has = [&](const ParameterSpec& one) { return one.kind == kind; };
  return std::ranges::any_of(specs, [&](const RouteSpec& spec) {
    return spec.pattern.find(fmt::format(":{}}}", kind)) != std::string_view::npos ||
           std::ranges::any_of(spec.query, has) || std::ranges::any_of(spec.fields, has) ||
           std::ranges::any_of(spec.answers,
                               [&](const AnswerSpec& one) { return std::ranges::any_of(one.fields, has); });
  });
}

struct PublicCode {
  std::string_view name;
  int status;
};
constexpr PublicCode codes[] = {
#define ERROR_CODE(name, status, retry) {#name, status},
#include "base/error_codes.def"
#undef ERROR_CODE
};
// Whether the code is answered as an error. The other codes mean success, or stay inside the process.
bool is_answered(const PublicCode& code) { return code.status >= 400; }

void write_error_schema(JsonWriter& json) {
  std::string statuses;
  for (const PublicCode& code : codes)
    if (is_answered(code))
      statuses += fmt::format("{}{} {}", statuses.empty() ? "" : ", ", code.name, code.status);
  json.key("Error").begin_object().field("type", "object").key("properties").begin_object();
  json.key("error").begin_object().field("type", "object").key("properties").begin_object();
  json.key("code").begin_object().field("type", "string").key("enum").begin_array();
  for (const PublicCode& code : codes)
    if (is_answered(code)) json.value(code.name);
  json.end_array().field("description", fmt::format("What went wrong, and its status: {}", statuses));
  json.end_object();
  json.key("message").begin_object().field("type", "string");
  json.field("description", "For people").end_object();
  json.key("corr_id").begin_object().field("type", "string");
  json.field("description", "As X-Corr-ID").end_object();
  json.key("retry_after").begin_object().field("type", "integer").field("minimum", 1);
  json.field("description", "As Retry-After: seconds to wait before it may go better").end_object();
  json.key("details").begin_object().field("type", "object");
  json.field("description", "More, of some codes").end_object();
  json.end_object().key("required").begin_array();
  json.value("code").value("message").value("corr_id").end_array();
  json.field("additionalProperties", false).end_object().end_object();
  json.key("required").begin_array().value("error").end_array();
  json.field("additionalProperties", false).end_object();
}

void write_kind_schema(JsonWriter& json, const Kind& kind) {
  json.key(kind.name).begin_object();
  if (kind.name == "Int")
    json.field("type", "integer").field("format", "uint64").field("minimum", 0);
  else if (kind.pattern.empty())
    json.field("type", "string").field("minLength", 1);
  else
    json.field("type", "string").field("pattern", kind.pattern);
  json.field("description", kind.about).end_object();
}

void write_components(JsonWriter& json, std::span<const RouteSpec> specs) {
  constexpr std::string_view corr_pattern = "^[0-9A-Za-z_-]{8,64}$";
  constexpr std::string_view seconds_about = "Seconds to wait before the request may go better";
  const auto text = [&](std::string_view pattern) {
    json.key("schema").begin_object().field("type", "string").field("pattern", pattern).end_object();
  };
  const auto seconds = [&](int least) {
    json.key("schema").begin_object().field("type", "integer").field("minimum", least).end_object();
  };
  json.key("components").begin_object().key("schemas").begin_object();
  write_error_schema(json);
  for (const Kind& kind : kinds)
    if (names(specs, kind.name)) write_kind_schema(json, kind);
  json.end_object();

  json.key("parameters").begin_object();
  json.key("X-Corr-ID").begin_object().field("name", "X-Corr-ID").field("in", "header");
  json.field("description", "The client's own name for the request, which the answer repeats");
  text(corr_pattern);
  json.end_object();
  json.key("Request-Timeout").begin_object().field("name", "Request-Timeout").field("in", "header");
  json.field("description", "Seconds after which the client no longer waits; it can only shorten");
  seconds(0);
  json.end_object().end_object();

  json.key("headers").begin_object();
  json.key("X-Corr-ID").begin_object();
  json.field("description", "The request's name in the logs: the client's own, or a new one");
  text(corr_pattern);
  json.end_object();
  json.key("Retry-After").begin_object().field("description", seconds_about);
  seconds(1);
  json.end_object().end_object();

  json.key("responses").begin_object().key("Error").begin_object();
  json.field("description", "It was refused or it failed: `code` says why, and the status follows from it");
  json.key("headers").begin_object();
  for (const std::string_view name : {"X-Corr-ID", "Retry-After"}) {
    json.key(name);
    write_reference(json, fmt::format("#/components/headers/{}", name));
  }
  json.end_object().key("content").begin_object().key("application/json").begin_object().key("schema");
  write_reference(json, fmt::format("{}Error", schema_place));
  json.end_object().end_object().end_object().end_object();

  json.key("securitySchemes").begin_object().key("capability").begin_object();
  json.field("type", "http").field("scheme", "bearer").field("bearerFormat", "macaroon");
  json.field("description",
             "A capability, as `cairn cap mint` prints it. An operation names what it must allow.");
  json.end_object().end_object().end_object();
}

// One member or item a line, two spaces for each level.
std::string indented(std::string_view compact) {
  std::string out;
  std::size_t depth = 0;
  bool quoted = false;
  const auto line = [&] { out.append("\n").append(2 * depth, ' '); };
  for (std::size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    if (quoted) {
      out += c;
      if (c == '\\')
        out += compact[++i];
      else
        quoted = c != '"';
      continue;
    }
    const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    depth -= closes ? 1 : 0;
    // An empty object or array stays on one line.
    if (closes && out.back() != '{' && out.back() != '[') line();
    out += c;
    quoted = c == '"';
    depth += opens ? 1 : 0;
    if ((opens && compact[i + 1] != '}' && compact[i + 1] != ']') || c == ',') line();
    if (c == ':') out += ' ';
  }
  return out += '\n';
}

}  // namespace

std::string format_openapi(const ServiceDeclaration& service, std::span<const RouteSpec> routes,
                           std::string_view version) {
  const std::string admin_op = fmt::format("{}.admin", service.name);
  std::vector<RouteSpec> specs(routes.begin(), routes.end());
  const std::vector<RouteSpec> built_in = built_in_routes(admin_op);
  specs.insert(specs.end(), built_in.begin(), built_in.end());

  std::string compact;
  JsonWriter json(compact);
  json.begin_object().field("openapi", "3.1.0");
  json.key("info").begin_object().field("title", fmt::format("cairn {}", service.name));
  json.field("summary", service.purpose).field("version", version);
  json.key("license").begin_object().field("name", "Apache License 2.0").field("identifier", "Apache-2.0");
  json.end_object().end_object();
  json.key("paths").begin_object();
  std::vector<std::string_view> written;
  for (const RouteSpec& spec : specs) {
    if (std::ranges::find(written, spec.pattern) != written.end()) continue;
    written.push_back(spec.pattern);
    write_path(json, specs, spec.pattern);
  }
  json.end_object();
  write_components(json, specs);
  json.end_object().finish();
  return indented(compact);
}

}  // namespace cairn::serve
