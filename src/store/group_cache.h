// GroupCache: verified groups in memory, shared by all shards: a hit costs no disk, no hash, no index.
//
//   [GC-1] Only bytes that were checked against their address are published, and the memory that was checked
//         is the memory that is sent.
//   [GC-2] bytes() never exceeds the capacity: groups are evicted, or a new one is not admitted.
//   [GC-3] Memory of a slot is reused only when no reference to it is left, and never while a page of it may
//         still be on its way through a socket. Slots that were sent by sendfile are punched out first; those
//         of a large page together with all of the page.
//   [GC-4] After erase(address) no find() gives a group of that address, until it is published again.
//   [GC-5] One pass over many objects does not push out groups that are used again and again.
// Striped by address; each stripe is a Guarded table. Groups of 32 KiB and more live in slots of an Arena and
// can be sent by sendfile. Smaller groups live on the heap, in size classes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/bytes.h"
#include "io/memory.h"
#include "io/piece.h"

namespace cairn::store {

// The facts of an object that a reader needs before its bytes.
struct ObjectFacts {
  std::uint64_t size = 0;
  std::string media_type;  // one that can be sent, whatever was stored
  std::string etag;        // "b3:…" in quotes, made once
  bool active = false;     // a browser may run it
};

class GroupCache {
 public:
  static constexpr std::size_t group_bytes = 64 << 10;  // the largest group, and a slot of the arena
  static constexpr std::uint64_t least_capacity = 1 << 20;
  static constexpr std::size_t part_groups = 16;  // at most
  // How much of a capacity is best given to the arena.
  static std::uint64_t arena_bytes(std::uint64_t capacity) noexcept;

  // The arena's slots, the tables and the nodes all come out of `capacity`. `seed`: a secret of the process
  // that keeps a client from choosing addresses that collide in the tables.
  GroupCache(std::unique_ptr<io::Arena> arena, std::uint64_t capacity, std::uint64_t seed = 0);
  // Precondition: no Ref, Hold or Reservation is left.
  ~GroupCache();
  GroupCache(const GroupCache&) = delete;
  GroupCache& operator=(const GroupCache&) = delete;

  struct Slot;
  // Keeps a published group where it is. Move-only; dropped on any thread.
  class Ref {
   public:
    Ref() = default;
    Ref(Ref&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
    Ref& operator=(Ref&& other) noexcept {
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Ref();
    explicit operator bool() const noexcept { return slot_ != nullptr; }
    const ObjectFacts& facts() const noexcept;
    ByteView bytes() const noexcept;
    // In the arena's file, or nothing when it is on the heap.
    std::optional<std::uint64_t> file_offset() const noexcept;
    // Gives the reference to a response. `sent_by_file`: its pages may be on their way after release.
    io::Hold to_hold(bool sent_by_file) && noexcept;

   private:
    friend class GroupCache;
    explicit Ref(Slot* slot) noexcept : slot_(slot) {}
    Slot* slot_ = nullptr;
  };

  Ref find(const Address& address, std::uint64_t group) noexcept;
  // The facts of an object, if some group of it is here.
  std::shared_ptr<const ObjectFacts> find_facts(const Address& address) noexcept;
  // Whether a miss of this group is worth a slot: it was missed before, not long ago, or less than half of
  // the capacity is in use. Remembers the miss.
  bool wants(const Address& address, std::uint64_t group, std::size_t size = group_bytes) noexcept;

  // Memory to read a group into and verify it there. It is published when the bytes are right, and given back
  // when dropped. An operation that may still write there after its waiter left keeps the Reservation itself
  // (io::Region::owner). Empty when everything is held, or when no group to evict was found soon: the caller
  // then serves from memory of its own.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Reservation();
    explicit operator bool() const noexcept { return slot_ != nullptr; }
    MutableByteView bytes() noexcept;
    // Precondition: bytes() was verified. `epoch` is what erase_epoch() said before the object was looked up.
    // An object that was erased since is not published, but the Ref is still good to send. If the group is in
    // the cache already, that copy stays there, and the Ref is of the bytes verified here.
    Ref publish(std::shared_ptr<const ObjectFacts> facts, std::uint64_t epoch) && noexcept;

   private:
    friend class GroupCache;
    explicit Reservation(Slot* slot) noexcept : slot_(slot) {}
    Slot* slot_ = nullptr;
  };
  // `size` is at most group_bytes. Groups of an object get memory side by side if they can. `in_part`: how
  // many groups this group's part has, if that is known.
  Reservation reserve(const Address& address, std::uint64_t group, std::size_t size,
                      std::size_t in_part = part_groups) noexcept;
  std::uint64_t erase_epoch(const Address& address) noexcept;
  void erase(const Address& address) noexcept;

  // Makes large pages ahead for parts of objects to come, so that no request waits for them. Evicts groups
  // that are next to go when there is no place for a page. True: it made one. A cache without prepare() works
  // the same, only slower. Blocks for milliseconds, on a thread that may block.
  bool prepare() noexcept;
  // Whether prepare() has something to do; a small cache has no large pages at all.
  bool wants_prepare() noexcept;
  bool has_large_pages() const noexcept;
  struct LargePages {
    std::uint64_t bytes = 0, ready = 0;  // ready: with no slot given out
    std::uint64_t resting = 0;           // in slots that are punched when the others of their page are free
  };
  LargePages large_pages() const noexcept;

  io::File& file() noexcept;  // of the arena
  // Memory of all groups that are findable or held, with their nodes.
  std::uint64_t bytes() const noexcept;
  std::uint64_t capacity() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
