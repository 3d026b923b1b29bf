#include "cairn/sources.h"

#include <fmt/format.h>

#include "serve/host.h"

extern char** environ;

namespace cairn::cli {

std::expected<config::Sources, std::string> read_sources(const Invocation& invocation,
                                                         std::optional<std::string> file) {
  config::Sources sources;
  if (file) {
    auto read = serve::read_config_file(*file, serve::Reading::first);
    if (!read) return std::unexpected(read.error());
    sources.file = std::move(*read);
  }
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    sources.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  sources.other_variables = {"CAIRN_URL", "CAIRN_INDEX", "CAIRN_CAP", "CAIRN_CA", "CAIRN_CHAOS"};
  if (const auto bind = invocation.find("bind"))
    sources.settings.push_back({"server.bind", std::string(*bind), "--bind"});
  for (const std::string& text : invocation.all("set")) {
    auto setting = config::parse_setting(text);
    if (!setting) return std::unexpected(fmt::format("--set {}: must be KEY=VALUE", text));
    sources.settings.push_back(std::move(*setting));
  }
  return sources;
}

}  // namespace cairn::cli
