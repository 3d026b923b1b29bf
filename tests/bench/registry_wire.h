// Sockets, clocks and marks of the registry's load generator.
#pragma once
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

[[noreturn]] inline void die(const std::string& what) {
  std::fprintf(stderr, "bench_registry: %s\n", what.c_str());
  std::exit(2);
}
[[noreturn]] inline void die_errno(const std::string& what) { die(what + ": " + std::strerror(errno)); }

inline uint64_t clock_ns(clockid_t id = CLOCK_MONOTONIC) {
  timespec t{};
  if (clock_gettime(id, &t) != 0) die_errno("clock_gettime");
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

inline clockid_t cpu_clock_of(pid_t pid) {
  clockid_t id{};
  if (clock_getcpuclockid(pid, &id) != 0) die("no such process to watch: " + std::to_string(pid));
  return id;
}

// Wall time, our own CPU time and that of the watched processes at one instant.
struct Mark {
  uint64_t wall = 0, own = 0, watched = 0;
  static Mark now(const std::vector<clockid_t>& watched) {
    Mark mark;
    for (const clockid_t id : watched) mark.watched += clock_ns(id);
    mark.own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    mark.wall = clock_ns();
    return mark;
  }
};

// A connected socket that does not block, in the epoll under this number.
inline int connect_to(const sockaddr_in& target, int epoll, uint32_t number) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die_errno("socket");
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) die_errno("connect");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = number;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) die_errno("epoll_ctl");
  return fd;
}

// A request is a few KiB and the one before it was answered: it always fits into the socket's buffer.
inline void send_whole(int fd, const std::string& bytes) {
  const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(bytes.size())) die_errno("send");
}
