// HeadBuilder: the head of an HTTP/2 request, field by field as HPACK gives them, under the same rules as a
// head of HTTP/1.1.
//
// It writes the head down as HTTP/1.1 would send it and has RequestParser read it. So there is one set of
// rules for methods, targets, hosts, lengths and limits, and the pipeline sees one kind of head.
//   [HB-1] A name or a value that could end its line is never written down: what the parser reads are exactly
//         the fields that came.
//   [HB-2] It keeps no more bytes than the limit of a head, whatever comes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/h1/parser.h"

namespace cairn::http::h2 {

class HeadBuilder {
 public:
  explicit HeadBuilder(HeadLimits limits = {}) : parser_(limits) {}

  // For the next head. Forgets all that was added.
  void reset(HeadLimits limits) noexcept;
  // One field, in the order of arrival. After a fault the rest is ignored.
  void add(std::string_view name, std::string_view value);
  // The field was refused before it came here.
  void refuse(const char* why) noexcept { give_up(ErrorCode::malformed, why); }
  // All fields have come. `bodiless`: nothing follows the head. An error says how to refuse the request;
  // head() then holds whatever was understood.
  Result<> finish(bool bodiless);

  const RequestHead& head() const noexcept { return parser_.head; }
  // The client waits for 100 before it sends its body.
  bool expects_continue() const noexcept { return expects_continue_; }
  // The protocol that an extended CONNECT asks for; empty: none.
  std::string_view upgrade() const noexcept { return upgrade_; }
  // Bytes of the fields that came, kept or not.
  std::size_t seen() const noexcept { return seen_; }
  // Bytes that are kept until reset().
  std::size_t kept() const noexcept { return text_.size() + cookie_.size(); }

 private:
  struct Pseudo {
    std::string text;
    bool given = false;
  };
  Pseudo* find_pseudo(std::string_view name) noexcept;
  void add_pseudo(std::string_view name, std::string_view value);
  void add_plain(std::string_view name, std::string_view value);
  void append_line(std::string_view name, std::string_view value);
  void write_request_line();
  void give_up(ErrorCode code, const char* why) noexcept {
    if (!fault_) fault_ = Error(code, why, Side::client);
  }

  RequestParser parser_;
  std::string text_, cookie_;
  Pseudo method_, scheme_, authority_, path_, protocol_;
  std::string_view upgrade_;
  std::optional<Error> fault_;
  std::size_t seen_ = 0;
  bool in_fields_ = false;  // the pseudo-header fields are over
  bool has_host_ = false;
  bool expects_continue_ = false;
};

}  // namespace cairn::http::h2
