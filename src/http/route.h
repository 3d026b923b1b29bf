// RouteTable: from a constexpr list of patterns to a segment trie with typed parameters.
//
//   constexpr Route routes[] = {
//     {route_get, Method::get | Method::head, "/o/{addr:Address}"},
//     {route_put, Method::put,                "/o/{addr:Address}"}, …};
//
// Parameters: Address (`b3:` and 64 hex digits), Name ([a-z0-9][a-z0-9._-]{0,127}), Id ([A-Za-z0-9_-]{1,64}),
// Int (0..2^64-1, no leading zero), Segment (any one non-empty segment), Rest (everything left, not empty;
// last). A literal segment wins over a parameter; matching does not go back to try the parameter. A position
// has at most one kind of parameter. Conflicts and bad patterns are CHECKed when the table is built.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "http/method.h"

namespace cairn::http {

using RouteId = std::uint16_t;

struct Route {
  RouteId id;
  MethodSet methods;
  std::string_view pattern;  // must outlive the table
};

struct RouteMatch {
  enum class Outcome : std::uint8_t { matched, not_found, method_not_allowed, malformed };
  static constexpr std::size_t params_max = 6;
  struct Param {
    std::string_view text;     // view into the path
    std::uint64_t number = 0;  // of an Int
  };

  Outcome outcome = Outcome::not_found;
  std::uint8_t count = 0;
  RouteId id = 0;                    // matched
  MethodSet allow;                   // matched, method_not_allowed: the methods of this path
  std::array<Param, params_max> at;  // in the order of the pattern; the first `count`
  Address address;                   // of the pattern's Address (at most one)
};

class RouteTable {
 public:
  explicit RouteTable(std::span<const Route> routes);

  // `path` is decoded (http/path.h). A parameter that does not parse is malformed, whatever the method.
  RouteMatch match(std::string_view path, Method method) const noexcept;

 private:
  enum class Kind : std::uint8_t { none, address, name, id, integer, segment, rest };
  struct Edge {
    std::string_view text;
    std::uint16_t child;
  };
  struct Node {
    std::vector<Edge> literals;
    Kind parameter = Kind::none;
    std::uint16_t parameter_child = 0;
    MethodSet allow;
    std::array<RouteId, method_count> by_method{};
  };
  void add(const Route& route);
  std::uint16_t literal_child(std::uint16_t node, std::string_view text);
  std::uint16_t parameter_child(std::uint16_t node, Kind kind);
  static Kind kind_of(std::string_view segment);
  static bool parse_parameter(Kind kind, std::string_view text, RouteMatch& match) noexcept;

  std::vector<Node> nodes_;
};

}  // namespace cairn::http
