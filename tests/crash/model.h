// Model: what an object store is, without a disk: the reference that the real one is held against.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace cairn::crash {

// One operation. Contents and uploads go by small numbers: the n-th content of the universe, the n-th upload
// that was begun.
struct Op {
  enum class Act : std::uint8_t { put, remove, pin, unpin, begin, part, commit, abort };
  Act act = Act::put;
  int content = 0;  // put, remove, pin, unpin; of a part, what it holds
  int upload = 0;   // begin, part, commit, abort
  int index = 0;    // of the part
  friend bool operator==(const Op&, const Op&) = default;
};

struct Model {
  struct Upload {
    std::map<int, int> parts;  // index → content
    std::optional<int> made;   // committed: the content
    friend bool operator==(const Upload&, const Upload&) = default;
  };
  struct Answer {
    ErrorCode code = ErrorCode::ok;
    bool existed = false;
    friend bool operator==(const Answer&, const Answer&) = default;
  };

  std::map<int, bool> objects;  // content → pinned
  std::map<int, Upload> uploads;
  friend bool operator==(const Model&, const Model&) = default;

  std::size_t open_uploads() const {
    std::size_t count = 0;
    for (const auto& [number, upload] : uploads) count += !upload.made;
    return count;
  }

  Answer apply(const Op& op) {
    switch (op.act) {
      case Op::Act::put:
        if (objects.contains(op.content)) return {ErrorCode::ok, true};
        objects[op.content] = false;
        return {};
      case Op::Act::remove: {
        const auto found = objects.find(op.content);
        if (found == objects.end()) return {ErrorCode::not_found};
        if (found->second) return {ErrorCode::pinned};
        objects.erase(found);
        return {ErrorCode::ok, true};
      }
      case Op::Act::pin:
      case Op::Act::unpin: {
        const auto found = objects.find(op.content);
        if (found == objects.end()) return {ErrorCode::not_found};
        found->second = op.act == Op::Act::pin;
        return {ErrorCode::ok, true};
      }
      case Op::Act::begin:
        uploads[op.upload] = {};
        return {};
      case Op::Act::part: {
        const auto found = uploads.find(op.upload);
        if (found == uploads.end() || found->second.made) return {ErrorCode::not_found};
        int& part = found->second.parts.emplace(op.index, -1).first->second;
        const bool existed = part == op.content;
        part = op.content;
        return {ErrorCode::ok, existed};
      }
      case Op::Act::commit:
        return commit(op.upload);
      case Op::Act::abort: {
        const auto found = uploads.find(op.upload);
        if (found == uploads.end() || found->second.made) return {ErrorCode::not_found};
        uploads.erase(found);
        return {};
      }
    }
    return {ErrorCode::internal};
  }

 private:
  // Uploads of the model have one part; what is made of it is that part's content.
  Answer commit(int number) {
    const auto found = uploads.find(number);
    if (found == uploads.end()) return {ErrorCode::not_found};
    Upload& upload = found->second;
    if (upload.made) {
      if (!objects.contains(*upload.made)) return {ErrorCode::not_found};
      return {ErrorCode::ok, true};
    }
    if (upload.parts.size() != 1 || !upload.parts.contains(0)) return {ErrorCode::upload_gap};
    const int content = upload.parts[0];
    if (objects.contains(content)) {
      uploads.erase(found);
      return {ErrorCode::ok, true};
    }
    objects[content] = false;
    upload.made = content;
    return {};
  }
};

std::string describe(const Op& op);
std::string describe(const Model& model);

// What may be the case: after an operation whose outcome nobody knows, more than one.
struct Possible {
  std::vector<Model> models{Model{}};

  void add(const Model& model) {
    for (const Model& known : models)
      if (known == model) return;
    models.push_back(model);
  }
  // Begun and not answered: each of them may have happened, in this order.
  Possible with(const std::vector<Op>& under_way) const {
    Possible out = *this;
    for (const Op& op : under_way)
      for (std::size_t i = 0, count = out.models.size(); i < count; ++i) {
        Model next = out.models[i];
        next.apply(op);
        out.add(next);
      }
    return out;
  }
  // Answered: only those remain that would have said the same. False: none would.
  bool answered(const Op& op, const Model::Answer& answer) {
    std::vector<Model> before = std::move(models);
    models.clear();
    for (Model& model : before)
      if (model.apply(op) == answer) add(model);
    return !models.empty();
  }
  std::uint64_t hash() const;
};

}  // namespace cairn::crash
