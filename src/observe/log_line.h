// A log record between the two threads: packed by the recorder, rendered as a line by the writer.
#pragma once

#include <string>
#include <string_view>

#include "observe/log.h"
#include "observe/log_ring.h"

namespace cairn::observe {

// Fills the payload; cuts a longer record and sets `truncated`.
void pack_record(LogRecord& record, std::string_view source, std::string_view message,
                 Fields fields) noexcept;
// Appends one line with its newline. Bytes that are not UTF-8 become U+FFFD; control characters are escaped,
// so a line is always one line.
void render_record(const LogRecord& record, LogFormat format, std::string& out);

}  // namespace cairn::observe
