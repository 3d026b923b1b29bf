#include "http/forwarded.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/network.h"
#include "http/h1/framing.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

// A host beyond this is not passed on: it is no name that anybody has.
constexpr std::size_t host_size_max = 300;
constexpr std::string_view user_prefix = "_uid.";

auto malformed(const char* why) { return fail(ErrorCode::malformed, why, Side::client); }

// Takes what it can off the front of the text.
class Reader {
 public:
  explicit Reader(std::string_view text) noexcept : rest_(text) {}
  bool at_end() const noexcept { return rest_.empty(); }
  bool take(char wanted) noexcept {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_blanks() noexcept {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  std::string_view token() noexcept {
    const auto end = std::ranges::find_if_not(rest_, is_token_character);
    const std::string_view token = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(token.size());
    return token;
  }
  // What stands between the quotes, as it is; nothing if they do not close.
  std::optional<std::string_view> quoted() noexcept {
    if (!take('"')) return std::nullopt;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '\\') {
        if (++i == rest_.size()) return std::nullopt;
      } else if (rest_[i] == '"') {
        const std::string_view inside = rest_.substr(0, i);
        rest_.remove_prefix(i + 1);
        return inside;
      }
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

std::optional<std::uint16_t> parse_port(std::string_view text) noexcept {
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || text.size() > 5 || problem != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return port;
}

std::optional<IpBytes> parse_address(std::string_view text, bool six) noexcept {
  std::array<char, 52> network;
  const std::string_view bits = six ? "/128" : "/32";
  if (text.empty() || text.size() + bits.size() > network.size()) return std::nullopt;
  if ((text.find(':') != std::string_view::npos) != six || text.find('/') != std::string_view::npos)
    return std::nullopt;
  std::memcpy(network.data(), text.data(), text.size());
  std::memcpy(network.data() + text.size(), bits.data(), bits.size());
  const auto parsed = parse_network({network.data(), text.size() + bits.size()});
  return parsed ? std::optional(parsed->bytes) : std::nullopt;
}

bool is_hidden(std::string_view node) noexcept {
  return node.size() > 1 && node.front() == '_' && std::ranges::all_of(node.substr(1), [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
         });
}

std::optional<io::PeerAddress> parse_user(std::string_view node) noexcept {
  if (!node.starts_with(user_prefix)) return std::nullopt;
  node.remove_prefix(user_prefix.size());
  io::PeerAddress peer;
  peer.local = true;
  const auto [end, problem] = std::from_chars(node.data(), node.data() + node.size(), peer.uid);
  if (node.empty() || problem != std::errc() || end != node.data() + node.size()) return std::nullopt;
  return peer;
}

// nodename [":" node-port]. False: it is neither an address nor one of the words that hide one.
bool read_node(std::string_view node, std::optional<io::PeerAddress>& client) noexcept {
  const bool six = node.starts_with('[');
  const std::size_t end = six ? node.find(']') : node.find(':');
  if (six && end == std::string_view::npos) return false;
  const std::string_view name = six ? node.substr(1, end - 1) : node.substr(0, end);
  std::string_view port =
      end == std::string_view::npos ? std::string_view() : node.substr(six ? end + 1 : end);
  io::PeerAddress peer;
  if (!port.empty()) {
    if (!port.starts_with(':')) return false;
    port.remove_prefix(1);
    const auto number = parse_port(port);
    if (!number && !is_hidden(port)) return false;
    peer.port = number.value_or(0);
  }
  client.reset();
  if (!six && (equals_ignoring_case(name, "unknown") || is_hidden(name))) {
    client = parse_user(name);
    return true;
  }
  const auto address = parse_address(name, six);
  if (!address) return false;
  std::ranges::copy(*address, peer.bytes);
  client = peer;
  return true;
}

// A parameter that came in this element.
enum Given : unsigned { given_for = 1, given_host = 2, given_proto = 4, given_by = 8 };

unsigned known_of(std::string_view name) noexcept {
  if (equals_ignoring_case(name, "for")) return given_for;
  if (equals_ignoring_case(name, "host")) return given_host;
  if (equals_ignoring_case(name, "proto")) return given_proto;
  return equals_ignoring_case(name, "by") ? given_by : 0;
}

Result<> read_value(unsigned parameter, std::string_view value, Forwarded& into) {
  std::optional<io::PeerAddress> by;
  switch (parameter) {
    case given_for:
      if (!read_node(value, into.client)) return malformed("Forwarded: `for` is no address");
      return {};
    case given_by:
      if (!read_node(value, by)) return malformed("Forwarded: `by` is no address");
      return {};
    case given_host:
      if (!is_valid_host(value)) return malformed("Forwarded: `host` is no host");
      into.host = value;
      return {};
    case given_proto:
      into.encrypted = equals_ignoring_case(value, "https");
      if (!*into.encrypted && !equals_ignoring_case(value, "http"))
        return malformed("Forwarded: `proto` is neither http nor https");
      return {};
    default:
      return {};
  }
}

Result<> read_pair(Reader& reader, unsigned& given, Forwarded& into) {
  const std::string_view name = reader.token();
  if (name.empty() || !reader.take('=')) return malformed("Forwarded: not a parameter");
  const unsigned parameter = known_of(name);
  if ((given & parameter) != 0) return malformed("Forwarded: a parameter twice");
  given |= parameter;
  if (const std::string_view plain = reader.token(); !plain.empty())
    return read_value(parameter, plain, into);
  const auto quoted = reader.quoted();
  if (!quoted) return malformed("Forwarded: not a value");
  return read_value(parameter, *quoted, into);
}

}  // namespace

Result<Forwarded> parse_forwarded(std::string_view line) {
  Reader reader(line);
  Forwarded last;
  do {
    reader.skip_blanks();
    last = {};
    unsigned given = 0;
    do {
      TRY_VOID(read_pair(reader, given, last));
    } while (reader.take(';'));
    reader.skip_blanks();
  } while (reader.take(','));
  if (!reader.at_end()) return malformed("Forwarded: not a list");
  return last;
}

Result<Forwarded> parse_forwarded(const Fields& fields) {
  Result<Forwarded> last = malformed("Forwarded: there is none");
  fields.each(FieldName::forwarded, [&](std::string_view line) {
    last = parse_forwarded(line);
    return last.has_value();
  });
  return last;
}

namespace {

class Writer {
 public:
  explicit Writer(ForwardedText& room) noexcept : room_(room) {}
  Writer& text(std::string_view text) noexcept {
    const std::size_t fits = std::min(text.size(), room_.size() - size_);
    std::memcpy(room_.data() + size_, text.data(), fits);
    size_ += fits;
    return *this;
  }
  Writer& number(std::uint32_t value, int base = 10) noexcept {
    char digits[12];
    return text({digits, std::to_chars(digits, digits + sizeof digits, value, base).ptr});
  }
  std::string_view view() const noexcept { return {room_.data(), size_}; }

 private:
  ForwardedText& room_;
  std::size_t size_ = 0;
};

bool is_four(const io::PeerAddress& client) noexcept {
  static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(client.bytes, mapped, sizeof mapped) == 0;
}

void write_address(const io::PeerAddress& client, Writer& out) noexcept {
  if (client.local) {
    out.text(user_prefix).number(client.uid);
    return;
  }
  if (is_four(client)) {
    for (std::size_t i = 12; i < 16; ++i) out.text(i == 12 ? "" : ".").number(client.bytes[i]);
    return;
  }
  for (std::size_t i = 0; i < 16; i += 2)
    out.text(i == 0 ? "" : ":")
        .number(static_cast<std::uint32_t>(client.bytes[i] << 8 | client.bytes[i + 1]), 16);
}

}  // namespace

std::string_view format_client(const io::PeerAddress& client, ForwardedText& room) noexcept {
  Writer out(room);
  write_address(client, out);
  return out.view();
}

std::string_view format_forwarded(const io::PeerAddress& client, std::string_view host, bool encrypted,
                                  ForwardedText& room) noexcept {
  Writer out(room);
  const bool six = !client.local && !is_four(client);
  out.text(six ? "for=\"[" : "for=");
  write_address(client, out);
  if (six) out.text("]\"");
  if (!host.empty() && host.size() <= host_size_max) out.text(";host=\"").text(host).text("\"");
  out.text(encrypted ? ";proto=https" : ";proto=http");
  return out.view();
}

}  // namespace cairn::http
