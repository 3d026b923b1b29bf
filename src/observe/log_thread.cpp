#include "observe/log_thread.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/check.h"

namespace cairn::observe {
namespace {

constexpr int patience_ms = 1000;

bool wait_writable(int fd) noexcept {
  pollfd waited{.fd = fd, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do ready = ::poll(&waited, 1, patience_ms);
  while (ready < 0 && errno == EINTR);
  return ready > 0 && (waited.revents & POLLOUT) != 0;
}

bool write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    // A writable pipe takes PIPE_BUF bytes without blocking, whatever its flags are.
    if (!wait_writable(fd)) return false;
    const ssize_t wrote = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (wrote < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

LogSink fd_sink(int fd) {
  return [fd](std::string_view lines) { return write_all(fd, lines); };
}

LogThread::LogThread(Log& log, LogSink sink) : log_(log), sink_(std::move(sink)) {}

LogThread::~LogThread() { stop(); }

void LogThread::start() {
  CHECK(!thread_.joinable());
  stopping_.store(false, std::memory_order_relaxed);
  thread_ = std::thread([this] { run(); });
}

void LogThread::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  log_.wake();
  thread_.join();
}

void LogThread::run() {
  // stopping_ is read before the drain, so the last drain takes every record made before stop().
  for (bool stopping = false; !stopping;) {
    log_.wait();
    stopping = stopping_.load(std::memory_order_acquire);
    log_.drain(sink_);
  }
}

}  // namespace cairn::observe
