#include "config/toml_guard.h"

namespace cairn::config {
namespace {

constexpr std::size_t most_dots = 64;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

class Guard {
 public:
  explicit Guard(std::string_view text) : text_(text) {}

  std::optional<Refusal> run() noexcept {
    if (text_.starts_with(byte_order_mark)) start_ = byte_order_mark.size();
    for (at_ = start_; at_ < text_.size(); ++at_) {
      if (const char* rule = step(text_[at_])) return refusal(rule);
    }
    return std::nullopt;
  }

 private:
  const char* step(char c) noexcept {
    if (static_cast<unsigned char>(c) >= 0x80) return "only texts and comments may go beyond ASCII";
    if (c == '#') return skip_comment(), nullptr;
    if (c == '"' || c == '\'') return skip_text(c);
    if (c == '\n' || c == '=' || c == ',') dots_ = 0;
    if (c == '.' && ++dots_ > most_dots) return "keys are nested too deeply";
    return nullptr;
  }

  // Both end before the line break, which step() then sees.
  void skip_comment() noexcept {
    while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
  }

  const char* skip_text(char quote) noexcept {
    constexpr std::string_view before = " \t\r\n=,[{";
    if (at_ > start_ && before.find(text_[at_ - 1]) == before.npos)
      return "a text starts after a blank or one of = , [ {";
    if (text_.substr(at_ + 1).starts_with(quote == '"' ? "\"\"" : "''")) return "a text is on one line";
    while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') {
      const char c = text_[++at_];
      if (c == quote) break;
      if (c == '\\' && quote == '"' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    }
    return nullptr;
  }

  Refusal refusal(const char* rule) const noexcept {
    Refusal result{.rule = rule};
    for (const char c : text_.substr(0, at_)) {
      result.column = c == '\n' ? 1 : result.column + 1;
      result.line += c == '\n';
    }
    return result;
  }

  std::string_view text_;
  std::size_t start_ = 0;
  std::size_t at_ = 0;
  std::size_t dots_ = 0;
};

}  // namespace

std::optional<Refusal> guard_toml(std::string_view text) noexcept { return Guard(text).run(); }

}  // namespace cairn::config
