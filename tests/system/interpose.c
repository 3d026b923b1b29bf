// What a disk, a clock or a network may do on a bad day, for LD_PRELOAD. A file that is named by
// WEATHER_FILE is mapped; whoever writes to it changes the weather at once. All is calm while it holds zeros.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct weather {
  int64_t sync_delay_ms;  // every sync takes so long
  int64_t clock_ms;       // added to the wall clock
  int64_t death;          // at the next sync: 1 before it, 2 after it; at the next write to a segment: 3 before it, 4 half of it
  int64_t send_buffer;    // of accepted connections, in bytes
  int64_t syncing;        // syncs that wait now (told, not read)
};

static struct weather calm;
static struct weather *weather = &calm;

__attribute__((constructor)) static void look(void) {
  const char *path = getenv("WEATHER_FILE");
  if (path == NULL) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  void *mapped = mmap(NULL, sizeof(struct weather), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  close(fd);
  weather = mapped;
}

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int64_t read_now(const int64_t *field) { return __atomic_load_n(field, __ATOMIC_SEQ_CST); }

static int is_segment(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return strstr(path, "/segments/") != NULL && strcmp(path + size - 4, ".seg") == 0;
}

static int slow_sync(const char *name, int fd) {
  int (*real)(int) = next(name);
  if (read_now(&weather->death) == 1) die();
  const int64_t delay = read_now(&weather->sync_delay_ms);
  if (delay > 0) {
    __atomic_add_fetch(&weather->syncing, 1, __ATOMIC_SEQ_CST);
    struct timespec tick = {.tv_sec = 0, .tv_nsec = 1000000};
    // Better weather ends the wait.
    for (int64_t i = 0; i < delay && read_now(&weather->sync_delay_ms) > 0; ++i) nanosleep(&tick, NULL);
    __atomic_sub_fetch(&weather->syncing, 1, __ATOMIC_SEQ_CST);
  }
  const int result = real(fd);
  if (read_now(&weather->death) == 2) die();
  return result;
}

int fdatasync(int fd) { return slow_sync("fdatasync", fd); }
int fsync(int fd) { return slow_sync("fsync", fd); }

int clock_gettime(clockid_t clock, struct timespec *out) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = next("clock_gettime");
  const int result = real(clock, out);
  const int64_t shift = read_now(&weather->clock_ms);
  if (clock == CLOCK_REALTIME && result == 0 && shift != 0) {
    int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + shift * 1000000;
    out->tv_sec = ns / 1000000000;
    out->tv_nsec = ns % 1000000000;
  }
  return result;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  ssize_t (*real)(int, const void *, size_t, off_t) = next("pwrite");
  const int64_t death = read_now(&weather->death);
  if (death >= 3 && is_segment(fd)) {
    if (death == 4) (void)!real(fd, data, size / 2, at);
    die();
  }
  return real(fd, data, size, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  ssize_t (*real)(int, const struct iovec *, int, off_t) = next("pwritev");
  const int64_t death = read_now(&weather->death);
  if (death >= 3 && is_segment(fd)) {
    size_t size = 0;
    for (int i = 0; i < count; ++i) size += parts[i].iov_len;
    ssize_t (*one)(int, const void *, size_t, off_t) = next("pwrite");
    for (size_t left = death == 4 ? size / 2 : 0; left > 0; ++parts) {
      const size_t some = parts->iov_len < left ? parts->iov_len : left;
      (void)!one(fd, parts->iov_base, some, at);
      at += (off_t)some;
      left -= some;
    }
    die();
  }
  return real(fd, parts, count, at);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
  int (*real)(int, struct sockaddr *, socklen_t *, int) = next("accept4");
  const int made = real(fd, address, size, flags);
  const int bytes = (int)read_now(&weather->send_buffer);
  if (made >= 0 && bytes > 0) setsockopt(made, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return made;
}
