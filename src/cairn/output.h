// What the program writes to stdout and stderr. No other file writes there.
//   [OP-1] A message never fails and never holds anything up: what its reader does not take is lost.
//   [OP-2] The result is waited for. That it could not be written ends in an exit code and a message; a
//   reader that
//         has gone is no error, and nothing is said of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::cli {

// --- messages
// A full pipe may be read in a moment. `none`: where a wait would hold others up.
enum class Patience : std::uint8_t { none, some };
// To stderr. False: it was lost.
bool write_message(std::string_view text, Patience patience = Patience::some) noexcept;
// What a service says on stdout, to whoever started it. It does not wait.
void announce(std::string_view text) noexcept;

// --- the result, on stdout
// False: it cannot be written any more; whoever has more of it may stop.
bool write_result(std::string_view text) noexcept;
bool flush_result() noexcept;
// Past the buffer, for bytes without end; on the pool, because a pipe may block. `closed`: the reader has
// gone.
Result<> write_result_bytes(ByteView bytes) noexcept;
// The last thing a program does: the code it leaves with, when what it did ended with `code`.
int finish_result(int code) noexcept;

// The first thing a program does. A reader that has gone does not end it; and where stdin, stdout or stderr
// were closed, no file of its own takes their numbers, to be written into by a message.
void prepare_streams() noexcept;

}  // namespace cairn::cli
