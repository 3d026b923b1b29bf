// KvWalk: the pairs of a map whose keys begin with a prefix, in order, a page at a time. A pair that is put
// or removed meanwhile may be met or not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/kv.h"
#include "store/object_format.h"

namespace cairn::store {

class KvWalk {
 public:
  // The map outlives the walk.
  KvWalk(Kv& kv, char prefix, std::size_t page = 512)
      : kv_(kv), page_(page), from_(1, prefix), until_(prefix_end(from_)) {}

  // Empty: there are no more. Cancel: clean.
  Task<Result<std::vector<KvPair>>> next(Call call) {
    if (over_) co_return std::vector<KvPair>();
    CO_TRY(auto found, co_await kv_.scan(call, from_, until_, page_));
    over_ = found.size() < page_;
    if (!over_) from_ = found.back().key + '\0';
    co_return found;
  }

 private:
  Kv& kv_;
  std::size_t page_;
  std::string from_, until_;
  bool over_ = false;
};

}  // namespace cairn::store
