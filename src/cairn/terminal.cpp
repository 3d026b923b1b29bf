#include "cairn/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "codec/json_writer.h"
#include "runtime/shard.h"

namespace cairn::cli {
namespace {

bool wants_color(const Invocation& invocation) {
  const std::string_view when = invocation.get("color", "auto");
  if (when != "auto") return when == "always";
  const char* no_color = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return isatty(2) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

std::string hint_of(const client::Failure& failure) {
  switch (failure.code()) {
    case ErrorCode::unauthorized:
      if (const char* given = std::getenv("CAIRN_CAP"); given != nullptr && *given != '\0')
        return R"(the server does not accept what CAIRN_CAP has: cairn cap inspect "$CAIRN_CAP")";
      return "give a capability in CAIRN_CAP, or --data DIR of the server on this machine; its next start "
             "makes an admin.cap that is missing";
    case ErrorCode::forbidden:
      return R"(see what the capability allows: cairn cap inspect "$CAIRN_CAP")";
    case ErrorCode::pinned:
      return "cairn unpin it first";
    case ErrorCode::busy:
    case ErrorCode::draining:
    case ErrorCode::degraded:
    case ErrorCode::not_ready:
      return "try again in a while, or see: cairn status";
    case ErrorCode::storage_full:
      return "make room, then: cairn doctor";
    case ErrorCode::timeout:
    case ErrorCode::connection_lost:
      return "is it up? cairn health";
    case ErrorCode::chain_mismatch:
      return "the head has moved on: propose again, from what it is now (cairn registry head)";
    case ErrorCode::quorum_failed:
      return "more signers must approve it: cairn registry approve ID --key NAME";
    case ErrorCode::duplicate_approval:
      return "this signer's approval is there already; nothing is to be done";
    case ErrorCode::revoked_key:
      return "another signer must approve it: cairn registry show head";
    case ErrorCode::invalid_sig:
      return "is it the signer's own key? cairn key show NAME, cairn registry show head";
    case ErrorCode::pruned:
      return "it was pruned; cairn registry verify checks what a checkpoint still vouches for";
    case ErrorCode::integrity:
      return "nothing wrong was kept; ask another node, or see: cairn doctor";
    case ErrorCode::conflict:
      return failure.message.find("several") != std::string::npos ? "write more of the address" : "";
    default:
      return {};
  }
}

}  // namespace

Terminal::Terminal(const Invocation& invocation, Patience patience)
    : patience_(patience),
      json_(invocation.has("json")),
      quiet_(invocation.has("quiet")),
      progress_(!json_ && !quiet_ && isatty(2) != 0),
      color_(wants_color(invocation)) {}

bool Terminal::line(std::string_view text) const { return write_result(text) && write_result("\n"); }

void Terminal::message(std::string_view text) const noexcept {
  // After a reader has stalled once, messages do not wait for it until it reads again.
  stalled_ = !write_message(text, stalled_ ? Patience::none : patience_);
}

void Terminal::say(std::string_view text) const {
  (void)flush_result();  // earlier output comes first, also through a pipe
  if (!quiet_ && !json_) message(fmt::format("{}\n", text));
}

void Terminal::warn(std::string_view text) const {
  (void)flush_result();
  message(json_ ? fmt::format("{{\"warning\":{}}}\n", json_string(text))
                : fmt::format("{}warning{}: {}\n", color_ ? "\033[33m" : "", color_ ? "\033[0m" : "",
                              printable(text)));
}

void Terminal::complain(std::string_view code, std::string_view what, std::string_view asked,
                        std::string_view hint) const {
  (void)flush_result();
  std::string text;
  if (json_) {
    codec::JsonWriter json(text);
    json.begin_object().key("error").begin_object().field("code", code).field("message", what);
    if (!asked.empty()) json.field("asked", asked);
    if (!hint.empty()) json.field("hint", hint);
    json.end_object().end_object().finish();
    return message(text + "\n");
  }
  text = fmt::format("{}error[{}]{}: {}\n", color_ ? "\033[1;31m" : "", code, color_ ? "\033[0m" : "", what);
  if (!asked.empty()) text += fmt::format("  asked  {}\n", printable(asked));
  if (!hint.empty()) text += fmt::format("  hint   {}\n", hint);
  message(text);
}

void Terminal::complain(const client::Failure& failure, std::string_view subject) const {
  std::string what;
  if (!subject.empty()) what = printable(subject) + ": ";
  // Only this program's own message may have several lines: the candidates of a prefix.
  what += failure.status == 0 ? failure.message : printable(failure.message);
  std::string asked = failure.asked;
  if (!failure.corr_id.empty()) asked += fmt::format("  ({} {})", failure.status, failure.corr_id);
  complain(name_of(failure.code()), what, asked, failure.hint.empty() ? hint_of(failure) : failure.hint);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string json_string(std::string_view text) {
  std::string out;
  codec::append_json_string(out, text);
  return out;
}

Progress::Progress(const Terminal& terminal, std::string_view verb) noexcept
    : terminal_(terminal), shown_(terminal.shows_progress()), verb_(verb) {}

void Progress::moved(std::uint64_t bytes) {
  done_ += bytes;
  if (!shown_) return;
  const Instant now = current_shard()->now();
  if (!begun_) {
    begun_ = true;
    started_ = drawn_ = now;
  }
  if (now - drawn_ < Duration::millis(100)) return;
  draw(now);
}

void Progress::draw(Instant now) {
  drawn_ = now;
  on_screen_ = true;
  const double seconds = (now - started_).to_seconds();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  std::string line = fmt::format("\r\033[K{}  {}", verb_, human_bytes(done_));
  if (total_ >= done_ && total_ > 0) {
    const auto left = static_cast<double>(total_ - done_);
    line += fmt::format(" of {}  {}%", human_bytes(total_), done_ * 100 / total_);
    line += fmt::format("  {}/s", human_bytes(static_cast<std::uint64_t>(rate)));
    if (rate > 0) line += fmt::format("  {:.0f} s left", left / rate);
  } else {
    line += fmt::format("  {}/s", human_bytes(static_cast<std::uint64_t>(rate)));
  }
  terminal_.message(line);
}

void Progress::clear() {
  if (!on_screen_) return;
  on_screen_ = false;
  terminal_.message("\r\033[K");
}

}  // namespace cairn::cli
