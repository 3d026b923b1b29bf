// ObjectSource: the bytes of one object, or of some ranges of it, as verified groups. Groups in the cache
// come without a wait. Others are read, checked, and sent from the same memory that was checked.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "crypto/outboard.h"
#include "http/range.h"
#include "io/piece.h"
#include "observe/metric.h"
#include "store/store_set.h"

namespace cairn::storage {

// The parts of this shard that every object is read through.
struct Library {
  store::SetPort& ports;
  store::GroupCache& cache;
  observe::Counter integrity;  // answers that ended because stored bytes did not match
  observe::Slot slot;
  Duration stall;  // a body ends when its lane has completed nothing for so long
};

// A piece of bytes [from, from + count) of verified groups.
io::Piece make_piece(store::GroupCache& cache, store::GroupBytes group, std::size_t from, std::size_t count);

class ObjectSource final : public io::BodySource {
 public:
  // `found` may be empty when every group is expected in the cache: the object is looked up if not.
  ObjectSource(Library library, Address address, std::shared_ptr<const store::ObjectFacts> facts,
               store::SetPort::Found found);

  void add(http::ByteRange range) { steps_.push_back({range.first, range.last + 1, {}}); }
  void add(std::string text) { steps_.push_back({0, 0, std::move(text)}); }
  // The first groups that will be sent, already read, and the bytes that were read ahead with them.
  struct First {
    store::GroupBytes bytes;
    store::ReadAhead ahead;
  };
  void prime(std::uint64_t group, First first) {
    primed_group_ = group;
    primed_ = std::move(first.bytes);
    has_primed_ = true;
    ahead_ = std::move(first.ahead);
  }

  // The content type of an answer with several ranges; the answer's field points to it.
  void set_content_type(std::string type) { content_type_ = std::move(type); }
  const std::string& content_type() const noexcept { return content_type_; }

  std::optional<io::Piece> try_next() override;
  Task<Result<io::Piece>> next(Call call) override;

 private:
  struct Step {
    std::uint64_t at, end;
    std::string text;  // sent before the bytes
  };
  io::Piece cut(store::GroupBytes bytes);
  std::optional<io::Piece> text_or_end();
  // The group after the last one of the current step, which has bytes left.
  std::uint64_t end_group() const noexcept { return (steps_[step_].end - 1) / crypto::group_size + 1; }

  Library library_;
  Address address_;
  std::shared_ptr<const store::ObjectFacts> facts_;
  store::SetPort::Found found_;
  std::string content_type_;
  std::vector<Step> steps_;
  std::size_t step_ = 0;
  bool text_sent_ = false;
  bool has_primed_ = false;
  std::uint64_t primed_group_ = 0;
  store::GroupBytes primed_;
  store::ReadAhead ahead_;
};

// The outboard of a range, part by part.
class ProofSource final : public io::BodySource {
 public:
  ProofSource(store::SetPort::Found found, Slab& slab, Duration stall, std::uint64_t first,
              std::uint64_t last, std::shared_ptr<const std::vector<crypto::Hash>> parts);
  Task<Result<io::Piece>> next(Call call) override;

 private:
  store::SetPort::Found found_;
  Slab& slab_;
  Duration stall_;
  std::shared_ptr<const std::vector<crypto::Hash>> parts_;
  crypto::ProofBuilder builder_;
};

}  // namespace cairn::storage
