// Reads of segments that are never in the page cache and take their time, and who closes segments, for LD_PRELOAD. A
// file that is named by SLOW_DISK is mapped; whoever writes to it changes the weather at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct disk {
  int64_t cold;           // nothing of a segment is in the page cache
  int64_t read_delay_ms;  // of each read of a segment
  int64_t sync_delay_ms;  // of each sync of what is no segment: the index, directories
  int64_t reading;        // reads that wait now (told, not read)
  int64_t syncing;        // such syncs that wait now (told)
  int64_t closed_here;    // segments that were closed by the first thread of the process (told)
  int64_t closed;         // segments that were closed by any (told)
};

static struct disk calm;
static struct disk *disk = &calm;

__attribute__((constructor)) static void look(void) {
  const char *path = getenv("SLOW_DISK");
  if (path == NULL) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  void *mapped = mmap(NULL, sizeof(struct disk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  syscall(SYS_close, fd);
  disk = mapped;
}

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

static int64_t now(const int64_t *field) { return __atomic_load_n(field, __ATOMIC_SEQ_CST); }
static void add(int64_t *field, int64_t count) { __atomic_add_fetch(field, count, __ATOMIC_SEQ_CST); }

static int is_segment(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return strstr(path, "/segments/") != NULL && strstr(path, ".seg") != NULL;
}

// Better weather ends the wait.
static void nap(const int64_t *field) {
  struct timespec tick = {.tv_sec = 0, .tv_nsec = 1000000};
  const int64_t delay = now(field);
  for (int64_t i = 0; i < delay && now(field) > 0; ++i) nanosleep(&tick, NULL);
}

static ssize_t slow_read(const char *name, int fd, void *data, size_t size, off_t at) {
  ssize_t (*real)(int, void *, size_t, off_t) = next(name);
  if (now(&disk->read_delay_ms) > 0 && is_segment(fd)) {
    add(&disk->reading, 1);
    nap(&disk->read_delay_ms);
    add(&disk->reading, -1);
  }
  return real(fd, data, size, at);
}
ssize_t pread(int fd, void *data, size_t size, off_t at) { return slow_read("pread", fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off_t at) { return slow_read("pread64", fd, data, size, at); }

static ssize_t cold_read(const char *name, int fd, const struct iovec *parts, int count, off_t at, int flags) {
  ssize_t (*real)(int, const struct iovec *, int, off_t, int) = next(name);
  if (now(&disk->cold) > 0 && (flags & RWF_NOWAIT) != 0 && is_segment(fd)) {
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

static int slow_sync(const char *name, int fd) {
  int (*real)(int) = next(name);
  if (now(&disk->sync_delay_ms) > 0 && !is_segment(fd)) {
    add(&disk->syncing, 1);
    nap(&disk->sync_delay_ms);
    add(&disk->syncing, -1);
  }
  return real(fd);
}
int fdatasync(int fd) { return slow_sync("fdatasync", fd); }
int fsync(int fd) { return slow_sync("fsync", fd); }

int close(int fd) {
  int (*real)(int) = next("close");
  if (disk != &calm && is_segment(fd)) {
    add(&disk->closed, 1);
    if (syscall(SYS_gettid) == getpid()) add(&disk->closed_here, 1);
  }
  return real(fd);
}
