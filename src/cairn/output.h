// Writes to stdout and stderr. No other file writes there.
//   [OP-1] A message never fails and never blocks the program: text that its reader does not take is lost.
//   [OP-2] The program waits until its result is written. A failure to write it gives an exit code and a
//         message. A reader that has gone is no error and gives no message.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::cli {

// --- messages
// Whether a message waits a moment for the reader of a full pipe. `none`: a wait would hold up other work.
enum class Patience : std::uint8_t { none, some };
// To stderr. False: it was lost.
bool write_message(std::string_view text, Patience patience = Patience::some) noexcept;
// A service's message on stdout to the process that started it. It does not wait.
void announce(std::string_view text) noexcept;

// --- the result, on stdout
// False: the result cannot be written any more, so the caller may stop producing it.
bool write_result(std::string_view text) noexcept;
bool flush_result() noexcept;
// Writes past the buffer, for a long stream of bytes. Called on the pool, because a pipe may block. `closed`:
// the reader has gone.
Result<> write_result_bytes(ByteView bytes) noexcept;
// The last call of a program. Returns the exit code, given that the work ended with `code`.
int finish_result(int code) noexcept;

// The first call of a program. Afterwards a reader that has gone does not kill the program. The numbers of
// stdin, stdout and stderr are taken even if they were closed, so that no message is written into a file of
// the program.
void prepare_streams() noexcept;

}  // namespace cairn::cli
