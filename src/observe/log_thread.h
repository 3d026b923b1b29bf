// LogThread: the one thread that turns recorded logs into lines and writes them out.
#pragma once

#include <atomic>
#include <thread>

#include "observe/log.h"

namespace cairn::observe {

// Writes to a descriptor it does not own. A reader that stalls for a second loses the lines and does not hold
// up the writer, and with it a shutdown, for ever. The loss is counted.
LogSink fd_sink(int fd);

class LogThread {
 public:
  // `log` outlives the writer.
  LogThread(Log& log, LogSink sink);
  ~LogThread();  // stops
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

  void start();
  // Writes the records made before the call, then joins the thread. Idempotent.
  void stop() noexcept;

 private:
  void run();

  Log& log_;
  LogSink sink_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace cairn::observe
