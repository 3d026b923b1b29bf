// NamesModel: what a ledger of names is, without a disk: the reference that the real one is held against.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace cairn::crash {

// One operation. Names, targets and manifests go by small numbers.
struct NameOp {
  enum class Act : std::uint8_t { set, remove, put_manifest, forget_manifest };
  enum class If : std::uint8_t { any, match, absent };
  Act act = Act::set;
  int subject = 0;  // the name, or the manifest
  int target = 0;   // of a set
  If condition = If::any;
  std::uint64_t tag = 0;  // of `match`
  bool stale = false;     // of a forget: it means a record that another one has replaced
  friend bool operator==(const NameOp&, const NameOp&) = default;
};

struct NamesModel {
  // The changes of a name, from the first on; none: a removal. The sequence of the last is their number.
  using History = std::vector<std::optional<int>>;
  struct Answer {
    ErrorCode code = ErrorCode::ok;
    bool existed = false;
    std::uint64_t sequence = 0;
    friend bool operator==(const Answer&, const Answer&) = default;
  };

  std::map<int, History> names;
  std::set<int> manifests;
  friend bool operator==(const NamesModel&, const NamesModel&) = default;

  const History* find(int name) const {
    const auto found = names.find(name);
    return found == names.end() ? nullptr : &found->second;
  }
  bool exists(int name) const {
    const History* history = find(name);
    return history != nullptr && history->back().has_value();
  }
  std::uint64_t sequence(int name) const {
    const History* history = find(name);
    return history == nullptr ? 0 : history->size();
  }

  Answer apply(const NameOp& op) {
    switch (op.act) {
      case NameOp::Act::set:
      case NameOp::Act::remove:
        return change(op);
      case NameOp::Act::put_manifest:
        return {ErrorCode::ok, !manifests.insert(op.subject).second};
      case NameOp::Act::forget_manifest: {
        const bool there = manifests.contains(op.subject);
        if (!op.stale) manifests.erase(op.subject);
        return {ErrorCode::ok, there};
      }
    }
    return {ErrorCode::internal};
  }

 private:
  Answer change(const NameOp& op) {
    const bool there = exists(op.subject);
    const bool holds = op.condition == NameOp::If::any     ? true
                       : op.condition == NameOp::If::match ? there && sequence(op.subject) == op.tag
                                                           : !there;
    if (!holds) return {ErrorCode::precondition_failed};
    const bool removes = op.act == NameOp::Act::remove;
    if (removes && !there) return {ErrorCode::not_found};
    History& history = names[op.subject];
    history.push_back(removes ? std::nullopt : std::optional(op.target));
    return {ErrorCode::ok, there, history.size()};
  }
};

std::string describe(const NameOp& op);
std::string describe(const NamesModel& model);

// What an operation was answered, as far as it was.
struct SaidOfOp {
  enum class Known : std::uint8_t {
    nothing,
    answer,
    failed
  };  // failed: nobody knows whether it has happened
  Known known = Known::nothing;
  NamesModel::Answer answer = {};
};

// What may be the case: after an operation whose outcome nobody knows, more than one.
struct PossibleNames {
  std::vector<NamesModel> models{NamesModel{}};

  void add(const NamesModel& model) {
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
  }
  // After operations that were begun together, in this order. Those without an answer have happened up to one
  // of them. One with an answer has happened, and would have been answered like that. Empty: none can be the
  // case.
  PossibleNames with(const std::vector<NameOp>& ops, const std::vector<SaidOfOp>& said) const {
    PossibleNames out{{}};
    for (std::size_t length = 0; length <= ops.size(); ++length) {
      PossibleNames now = *this;
      for (std::size_t i = 0; i < ops.size(); ++i) now.take(ops[i], said[i], i < length);
      for (const NamesModel& model : now.models) out.add(model);
    }
    return out;
  }
  std::uint64_t hash() const;

 private:
  void take(const NameOp& op, const SaidOfOp& said, bool happened) {
    const std::vector<NamesModel> before = std::move(models);
    models.clear();
    for (NamesModel model : before) {
      if (said.known == SaidOfOp::Known::failed || (said.known == SaidOfOp::Known::nothing && !happened))
        add(model);
      if (said.known == SaidOfOp::Known::nothing && !happened) continue;
      const NamesModel::Answer answer = model.apply(op);
      if (said.known != SaidOfOp::Known::answer || answer == said.answer) add(model);
    }
  }
};

}  // namespace cairn::crash
