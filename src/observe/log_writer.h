// LogWriter: the one thread that turns recorded logs into lines and writes them out.
#pragma once

#include <atomic>
#include <thread>

#include "observe/log.h"

namespace cairn::observe {

// Writes to a descriptor it does not own. A reader that stands still for a second loses the lines instead
// of holding up the writer (and with it a shutdown) for ever; the loss is counted.
LogSink fd_sink(int fd);

class LogWriter {
 public:
  // `log` outlives the writer.
  LogWriter(Log& log, LogSink sink);
  ~LogWriter();  // stops
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void start();
  // Writes what was recorded before the call, then joins the thread. Idempotent.
  void stop() noexcept;

 private:
  void run();

  Log& log_;
  LogSink sink_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace cairn::observe
