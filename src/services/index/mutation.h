// Mutation: one change of the ledger, as a shard asks the committer for it, and the committer's answer.
#pragma once

#include <optional>
#include <string>

#include "base/heap_bytes.h"
#include "http/conditional.h"
#include "runtime/errand.h"
#include "services/index/record.h"

namespace cairn::index {

struct Outcome {
  NameState state;       // of the name, after the change
  bool existed = false;  // the name led somewhere before, or the manifest was there
};

struct Mutation : Errand<Mutation, Outcome> {
  enum class Kind : std::uint8_t {
    set_name,        // name, manifest, note
    remove_name,     // name
    put_manifest,    // manifest, bytes: they have this address
    forget_manifest  // manifest: its bytes on the disk do not match
  };
  explicit Mutation(Kind what) noexcept : kind(what) {}

  Kind kind;
  std::string by;
  std::string name;
  Address manifest;
  std::string note;
  http::WriteConditions conditions;
  HeapBytes bytes;
  store::Position at;  // of forget_manifest: the record that was read
};

}  // namespace cairn::index
