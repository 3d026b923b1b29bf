#include "serve/root_keys.h"

#include "crypto/secret_bytes.h"
#include "io/lock_file.h"

namespace cairn::serve {
namespace {

std::string lock_of(const std::string& path) { return path + ".lock"; }

Result<> write(const std::string& path, const crypto::KeyRing& ring) {
  std::string text = ring.format();
  const Result<> written = io::replace_file(path, text);
  crypto::wipe(text);
  return written;
}

}  // namespace

RootKeys::RootKeys(std::string path, Held held) : path_(std::move(path)), held_(std::move(held)) {}

RootKeys::RootKeys(crypto::KeyRing ring)
    : RootKeys({}, {std::make_shared<const KeySnapshot>(1, std::move(ring)), {}}) {}

Result<crypto::KeyRing> RootKeys::read(const std::string& path) {
  TRY(const crypto::SecretText text, io::read_private_file(path, file_max));
  return crypto::KeyRing::parse(text.reveal());
}

Result<std::unique_ptr<RootKeys>> RootKeys::open(std::string path) {
  // The mark is taken first: a write between the two steps is then seen as a change.
  TRY(const io::FileMark mark, io::mark_file(path));
  TRY(crypto::KeyRing ring, read(path));
  auto keys = std::make_shared<const KeySnapshot>(1, std::move(ring));
  return std::unique_ptr<RootKeys>(new RootKeys(std::move(path), {std::move(keys), mark}));
}

Result<> RootKeys::create(const std::string& path, const crypto::KeyRing& ring) {
  TRY(const io::LockFile lock, io::LockFile::wait_for(lock_of(path)));
  if (io::mark_file(path)) return fail(ErrorCode::conflict, "there are root keys already");
  return write(path, ring);
}

KeySnapshotPtr RootKeys::current() const {
  return held_.with([](const Held& held) { return held.keys; });
}

KeySnapshotPtr RootKeys::hold(crypto::KeyRing ring, io::FileMark mark) {
  auto ring_later = std::make_shared<KeySnapshot>(0, std::move(ring));
  return held_.with([&](Held& held) {
    ring_later->version = held.keys->version + 1;
    held.keys = std::move(ring_later);
    held.mark = mark;
    return held.keys;
  });
}

// Versions follow the order of reading because both happen under the file's lock.
template <class Change>
Result<KeySnapshotPtr> RootKeys::rewrite(Change change) {
  if (path_.empty())
    return held_.with([&](Held& held) -> Result<KeySnapshotPtr> {
      auto changed = std::make_shared<KeySnapshot>(held.keys->version + 1, held.keys->ring);
      TRY_VOID(change(changed->ring));
      held.keys = std::move(changed);
      return held.keys;
    });
  TRY(const io::LockFile lock, io::LockFile::wait_for(lock_of(path_)));
  TRY(crypto::KeyRing ring, read(path_));
  TRY_VOID(change(ring));
  TRY_VOID(write(path_, ring));
  TRY(const io::FileMark mark, io::mark_file(path_));
  return hold(std::move(ring), mark);
}

Result<KeySnapshotPtr> RootKeys::revoke(std::string_view id, crypto::RootKey instead) {
  return rewrite([&](crypto::KeyRing& ring) -> Result<> {
    TRY_VOID(ring.revoke(id));
    return ring.find_minting() != nullptr ? Result<>{} : ring.rotate(std::move(instead));
  });
}

Result<KeySnapshotPtr> RootKeys::rotate(crypto::RootKey key) {
  return rewrite([&](crypto::KeyRing& ring) { return ring.rotate(std::move(key)); });
}

Result<KeySnapshotPtr> RootKeys::refresh() {
  if (path_.empty()) return current();
  TRY(const io::FileMark mark, io::mark_file(path_));
  if (held_.with([&](const Held& held) { return held.mark == mark; })) return current();
  return read_again();
}

Result<KeySnapshotPtr> RootKeys::read_again() {
  TRY(const io::LockFile lock, io::LockFile::wait_for(lock_of(path_)));
  TRY(const io::FileMark mark, io::mark_file(path_));
  TRY(crypto::KeyRing ring, read(path_));
  return hold(std::move(ring), mark);
}

}  // namespace cairn::serve
