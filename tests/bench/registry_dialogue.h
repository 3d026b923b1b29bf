// What a client says to a registry, and to etcd's JSON gateway for the like: one dialogue a connection, a
// request at a time. How requests travel and how time is taken is the loop's matter.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crypto/ed25519.h"

enum class Heard {
  on_the_way,  // fine; the next request goes on from here
  counted,     // what is measured was done once more
  refused,     // somebody else was first: begin again
  wrong,       // an answer that must not be
};

// What the dialogues of a run share.
struct Play {
  std::string host;
  std::string bearer;    // of a registry: the value of Authorization
  std::string proposal;  // its document; `distinct_mark` in it becomes a new number each time
  std::vector<std::pair<std::string, cairn::crypto::Ed25519Key>> signers;  // the first `quorum` approve
  std::size_t quorum = 1;
  std::size_t value_bytes = 100;      // of etcd
  std::uint64_t commit_every = 8192;  // proposals after which one is committed, which ends them all
  std::uint64_t distinct = 0;         // numbers given out
  std::uint64_t uncommitted = 0;      // proposals since the last commit
  bool committing = false;            // somebody is at it
};

inline constexpr std::string_view distinct_mark = "@@@@@@@@@@@@@@@@";

class Dialogue {
 public:
  virtual ~Dialogue() = default;
  // Appends the next request.
  virtual void ask(Play& play, std::string& out) = 0;
  virtual Heard hear(Play& play, int status, std::string_view body) = 0;
  // The request that ask() would write now is the one whose effect is told to subscribers.
  virtual bool at_effect() const { return true; }
};

// Modes: head, commits, proposals; etcd-range, etcd-swap, etcd-put. Null: there is no such mode.
std::unique_ptr<Dialogue> make_dialogue(std::string_view mode);

// What lies between `before` and the next `end`; empty where it is not there.
std::string_view between(std::string_view text, std::string_view before, char end);
std::uint64_t number_after(std::string_view text, std::string_view before);
