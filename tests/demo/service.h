// The demo service: a 1 KiB answer from memory, a file range, an echo, a slow job, streams, a long poll.
#pragma once

#include <memory>
#include <string>

#include "serve/service.h"

namespace cairn::demo {

// `files`: the directory of /file/{name}; empty: every name is not found.
std::unique_ptr<serve::Service> make_service(std::string files);

}  // namespace cairn::demo
