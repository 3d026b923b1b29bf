// bench_hash FILE: prints the BLAKE3-256 of a file, hashed as the store hashes what it takes in. One thread,
// reads of 64 KiB, as the slices of a body: what `b3sum --num-threads 1 --no-mmap` does, so that the two can
// be held side by side.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/address.h"
#include "crypto/object_hasher.h"

using namespace cairn;

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_hash FILE\n");
    return 64;
  }
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> buffer(crypto::group_size);
  crypto::ObjectHasher hasher;
  ssize_t got = -1;
  while (file >= 0 && (got = read(file, buffer.data(), buffer.size())) > 0)
    hasher.update(ByteView(buffer).first(static_cast<std::size_t>(got)));
  if (got < 0) {
    fmt::print(stderr, "bench_hash: {}: {}\n", argv[1], std::strerror(errno));
    return 1;
  }
  close(file);
  fmt::print("{}\n", format_address(hasher.finish().address));
  return 0;
}
