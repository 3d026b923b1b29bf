// What a disk, a clock or a network may do on a bad day, for LD_PRELOAD. A file that is named by
// WEATHER_FILE is mapped; whoever writes to it changes the weather at once. All is calm while it holds zeros.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct weather {
  int64_t sync_delay_ms;  // every sync takes so long
  int64_t clock_ms;       // added to the wall clock
  int64_t death;          // at the next sync: 1 before it, 2 after it; at the next write to a segment: 3 before it, 4 half of it
  int64_t send_buffer;    // of accepted connections, in bytes
  int64_t syncing;        // syncs that wait now (told, not read)
  int64_t cold;           // a read of a segment that may not wait finds nothing in memory
  int64_t read_delay_ms;  // every other read of a segment takes so long
  int64_t reading;        // reads that wait now (told)
  int64_t accept_hangs;   // an accept that has taken a connection does not return
  int64_t accepting;      // accepts that hang now (told)
  int64_t index_sync_delay_ms;  // a sync of what is no segment (the index, directories) takes so long
  int64_t index_syncing;        // such syncs that wait now (told)
  int64_t closed;               // segments that were closed (told)
  int64_t closed_here;          // of these by the first thread of the process (told)
  int64_t no_memory;            // from this size on, nobody is given any
  // --- by chance, each in a million calls on a segment
  int64_t slow;  // a read, write or sync takes up to slow_ms
  int64_t slow_ms;
  int64_t read_fails;   // EIO
  int64_t write_fails;  // EIO, after a part was written
  int64_t write_full;   // ENOSPC, after a part was written
  int64_t sync_fails;   // EIO
  int64_t seed;
  int64_t faults;  // how many of these there were (told)
  int64_t config_delay_ms;  // a read of a configuration takes so long
  int64_t config_reading;   // such reads that wait now (told)
  int64_t segment_syncing;  // slow syncs of segments that wait now (told)
  int64_t segment_syncs;    // all of these (told)
  int64_t syncs_together;   // of these, how many began while another one waited (told)
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
  syscall(SYS_close, fd);
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

static int path_of(int fd, char path[4096]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, 4095);
  if (size <= 0) return 0;
  path[size] = 0;
  return 1;
}

static int is_config(int fd) {
  char path[4096];
  return path_of(fd, path) && strstr(path, ".toml") != NULL;
}

static int is_segment(int fd) {
  char path[4096];
  if (!path_of(fd, path)) return 0;
  // One that was taken away has " (deleted)" behind its name.
  const char *end = strstr(path, ".seg");
  return strstr(path, "/segments/") != NULL && end != NULL && (end[4] == 0 || end[4] == ' ');
}

// So many milliseconds; better weather ends the wait.
static void wait_out(const int64_t *field, int64_t *told) {
  const int64_t delay = read_now(field);
  if (delay <= 0) return;
  __atomic_add_fetch(told, 1, __ATOMIC_SEQ_CST);
  struct timespec tick = {.tv_sec = 0, .tv_nsec = 1000000};
  for (int64_t i = 0; i < delay && read_now(field) > 0; ++i) nanosleep(&tick, NULL);
  __atomic_sub_fetch(told, 1, __ATOMIC_SEQ_CST);
}

static uint64_t draw(void) {
  static uint64_t drawn;
  uint64_t z = (uint64_t)read_now(&weather->seed) + 0x9e3779b97f4a7c15u * __atomic_add_fetch(&drawn, 1, __ATOMIC_SEQ_CST);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Whether it happens this time.
static int strikes(const int64_t *per_million) {
  const int64_t chance = read_now(per_million);
  if (chance <= 0 || draw() % 1000000 >= (uint64_t)chance) return 0;
  __atomic_add_fetch(&weather->faults, 1, __ATOMIC_SEQ_CST);
  return 1;
}

static void maybe_slow(void) {
  const int64_t most = read_now(&weather->slow_ms);
  if (most <= 0 || !strikes(&weather->slow)) return;
  const int64_t ms = (int64_t)(draw() % (uint64_t)most);
  struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&span, NULL);
}

// Which error a write meets by chance, or 0.
static int write_fault(void) {
  maybe_slow();
  if (strikes(&weather->write_full)) return ENOSPC;
  return strikes(&weather->write_fails) ? EIO : 0;
}

static int by_chance(void) {
  return (read_now(&weather->slow) | read_now(&weather->read_fails) | read_now(&weather->write_fails) |
          read_now(&weather->write_full) | read_now(&weather->sync_fails)) > 0;
}

static int slow_sync(const char *name, int fd) {
  int (*real)(int) = next(name);
  if (read_now(&weather->death) == 1) die();
  const int counted = read_now(&weather->sync_delay_ms) > 0 && is_segment(fd);
  if (counted) {
    __atomic_add_fetch(&weather->segment_syncs, 1, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&weather->segment_syncing, 1, __ATOMIC_SEQ_CST) > 1)
      __atomic_add_fetch(&weather->syncs_together, 1, __ATOMIC_SEQ_CST);
  }
  wait_out(&weather->sync_delay_ms, &weather->syncing);
  if (counted) __atomic_sub_fetch(&weather->segment_syncing, 1, __ATOMIC_SEQ_CST);
  if (read_now(&weather->index_sync_delay_ms) > 0 && !is_segment(fd))
    wait_out(&weather->index_sync_delay_ms, &weather->index_syncing);
  if (by_chance() && is_segment(fd)) {
    maybe_slow();
    if (strikes(&weather->sync_fails)) {
      errno = EIO;
      return -1;
    }
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

ssize_t read(int fd, void *data, size_t size) {
  static ssize_t (*real)(int, void *, size_t);
  if (real == NULL) real = next("read");
  if (read_now(&weather->config_delay_ms) > 0 && is_config(fd)) wait_out(&weather->config_delay_ms, &weather->config_reading);
  return real(fd, data, size);
}

static ssize_t bad_read(const char *name, int fd, void *data, size_t size, off_t at) {
  ssize_t (*real)(int, void *, size_t, off_t) = next(name);
  if ((read_now(&weather->read_delay_ms) > 0 || by_chance()) && is_segment(fd)) {
    wait_out(&weather->read_delay_ms, &weather->reading);
    maybe_slow();
    if (strikes(&weather->read_fails)) {
      errno = EIO;
      return -1;
    }
  }
  return real(fd, data, size, at);
}

ssize_t pread(int fd, void *data, size_t size, off_t at) { return bad_read("pread", fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off_t at) { return bad_read("pread64", fd, data, size, at); }

static ssize_t cold_read(const char *name, int fd, const struct iovec *parts, int count, off_t at, int flags) {
  ssize_t (*real)(int, const struct iovec *, int, off_t, int) = next(name);
  if (read_now(&weather->cold) > 0 && (flags & RWF_NOWAIT) && is_segment(fd)) {
    errno = EAGAIN;
    return -1;
  }
  return real(fd, parts, count, at, flags);
}

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
  return cold_read("preadv2", fd, parts, count, at, flags);
}
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
  return cold_read("preadv64v2", fd, parts, count, at, flags);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  ssize_t (*real)(int, const void *, size_t, off_t) = next("pwrite");
  const int64_t death = read_now(&weather->death);
  if (death >= 3 && is_segment(fd)) {
    if (death == 4) (void)!real(fd, data, size / 2, at);
    die();
  }
  if (by_chance() && is_segment(fd)) {
    const int fault = write_fault();
    if (fault != 0) {
      (void)!real(fd, data, size / 2, at);
      errno = fault;
      return -1;
    }
  }
  return real(fd, data, size, at);
}

static void write_half(int fd, const struct iovec *parts, int count, off_t at) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  ssize_t (*one)(int, const void *, size_t, off_t) = next("pwrite");
  for (size_t left = size / 2; left > 0; ++parts) {
    const size_t some = parts->iov_len < left ? parts->iov_len : left;
    (void)!one(fd, parts->iov_base, some, at);
    at += (off_t)some;
    left -= some;
  }
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  ssize_t (*real)(int, const struct iovec *, int, off_t) = next("pwritev");
  const int64_t death = read_now(&weather->death);
  if (death >= 3 && is_segment(fd)) {
    if (death == 4) write_half(fd, parts, count, at);
    die();
  }
  if (by_chance() && is_segment(fd)) {
    const int fault = write_fault();
    if (fault != 0) {
      write_half(fd, parts, count, at);
      errno = fault;
      return -1;
    }
  }
  return real(fd, parts, count, at);
}

void *malloc(size_t size) {
  extern void *__libc_malloc(size_t);
  const int64_t least = read_now(&weather->no_memory);
  if (least > 0 && size >= (size_t)least) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
  int (*real)(int, struct sockaddr *, socklen_t *, int) = next("accept4");
  const int made = real(fd, address, size, flags);
  if (made >= 0 && read_now(&weather->accept_hangs) > 0) {
    __atomic_add_fetch(&weather->accepting, 1, __ATOMIC_SEQ_CST);
    struct timespec tick = {.tv_sec = 0, .tv_nsec = 1000000};
    while (read_now(&weather->accept_hangs) > 0) nanosleep(&tick, NULL);
    __atomic_sub_fetch(&weather->accepting, 1, __ATOMIC_SEQ_CST);
  }
  const int bytes = (int)read_now(&weather->send_buffer);
  if (made >= 0 && bytes > 0) setsockopt(made, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return made;
}

int close(int fd) {
  int (*real)(int) = next("close");
  if (weather != &calm && is_segment(fd)) {
    __atomic_add_fetch(&weather->closed, 1, __ATOMIC_SEQ_CST);
    if (syscall(SYS_gettid) == getpid()) __atomic_add_fetch(&weather->closed_here, 1, __ATOMIC_SEQ_CST);
  }
  return real(fd);
}
