#include "cairn/output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "cairn/exit_code.h"

namespace cairn::cli {
namespace {

constexpr int patience_ms = 1000;

bool is_writable(int fd, int within_ms) noexcept {
  pollfd waited{.fd = fd, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do ready = ::poll(&waited, 1, within_ms);
  while (ready < 0 && errno == EINTR);
  return ready > 0 && (waited.revents & POLLOUT) != 0;
}

// Writes as much of the text as the reader takes; true: all of it.
bool offer(int fd, std::string_view text, int within_ms) noexcept {
  while (!text.empty()) {
    // A writable pipe takes PIPE_BUF bytes without blocking, whatever its flags are.
    if (!is_writable(fd, within_ms)) return false;
    const ssize_t put = ::write(fd, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (put < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

bool reader_has_gone() noexcept {
  pollfd looked{.fd = 1, .events = POLLOUT, .revents = 0};
  return ::poll(&looked, 1, 0) > 0 && (looked.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

bool write_message(std::string_view text, Patience patience) noexcept {
  return offer(2, text, patience == Patience::some ? patience_ms : 0);
}

void announce(std::string_view text) noexcept { (void)offer(1, text, 0); }

bool write_result(std::string_view text) noexcept {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

bool flush_result() noexcept { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

Result<> write_result_bytes(ByteView bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t put = ::write(1, bytes.data(), bytes.size());
    if (put < 0 && errno == EAGAIN) (void)is_writable(1, patience_ms);
    if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (put < 0 && errno == EPIPE) return fail(ErrorCode::closed, "stdout");
    if (put < 0) return fail(ErrorCode::io_failed, "stdout cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

int finish_result(int code) noexcept {
  if (flush_result() || reader_has_gone()) return code;
  (void)write_message("error[io_failed]: stdout cannot be written\n");
  return code == code_of(Exit::ok) ? code_of(Exit::failed) : code;
}

void prepare_streams() noexcept {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  for (int fd : {0, 1, 2})
    if (::fcntl(fd, F_GETFD) < 0)
      (void)::open("/dev/null", O_RDWR);  // takes the lowest number, which is this
}

}  // namespace cairn::cli
