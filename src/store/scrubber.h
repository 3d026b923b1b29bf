// Scrubber: looks at everything that is stored, again and again, each pass spread over an interval. Its place
// in a pass is noted beside the log, so that a service which is often restarted comes to the end, too. It
// quarantines objects that it finds bad, and releases those that are whole again (quarantine.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/token_bucket.h"
#include "store/home_parts.h"

namespace cairn::store {

class Committer;

class Scrubber {
 public:
  // The arguments outlive the scrubber; the committer may be made after it.
  Scrubber(HomeParts& parts, Committer& committer);

  Task<> scrub_loop(Call call);
  // A whole pass, for tests.
  Task<Result<>> scrub_once(Call call);
  void start_scrub() noexcept;
  void set_rate(Rate rate) noexcept { pace_.set_rate(rate); }
  void set_interval(Duration interval) noexcept { interval_ = interval; }

  // --- quarantine.cpp
  // A place in the log that cannot be read: the next pass names its objects.
  void note_damage(const Damage& damage);
  void name_later(const std::vector<Damage>& damages) {
    found_.insert(found_.end(), damages.begin(), damages.end());
  }
  void forget_damage() noexcept { found_.clear(); }
  // Every object with bytes in a damaged place.
  Task<Result<>> quarantine_damage(Call call, Damage damage);
  // Whether some quarantined objects are not damaged but gone.
  Task<Result<>> look_for_losses(Call call);

 private:
  // A pass: as fast as the rate allows, or spread over the interval.
  struct Pass {
    bool spread = false;
    Instant began{};
    std::uint64_t bytes = 0;  // looked at since
    Position noted{};
    Instant noted_at{};
  };
  Task<Result<bool>> keep_pace(Call call, Pass* pass, std::uint64_t bytes, Position next);
  Task<Result<>> note_scrub(Call call, Position next);
  Task<Position> noted_scrub(Call call);
  // False: another pass was asked for.
  Task<Result<bool>> scrub_pass(Call call, Pass* pass, Position from);
  Task<Result<bool>> scrub_segment(Call call, Pass* pass, std::uint32_t segment, std::uint64_t from,
                                   std::uint64_t end);
  Task<Result<>> scrub_record(Call call, std::shared_ptr<io::File> file, const Entry& entry);
  Task<Result<>> scrub_spread(Call call);
  // Checks everything of the index that is on the disk, whether or not it is in use.
  Task<Result<>> scrub_index(Call call);

  Task<Result<>> quarantine(Call call, Address address, std::uint64_t origin, Position at);
  // Quarantines every object with bytes in such a place. `at`: where the bad bytes are, to be noted; none:
  // they are gone.
  Task<Result<>> quarantine_hurt(Call call, PlaceTest is_bad, std::optional<Position> at);
  // Quarantines objects with bytes behind the ends that segments have on the disk now.
  Task<Result<>> quarantine_cut(Call call);
  Task<Result<bool>> is_right_on_disk(Call call, std::shared_ptr<io::File> file, const Entry& entry);
  Task<Result<std::optional<Entry>>> whole_record(Call call, Place place);
  // Whether everything that an object is made of is on the disk and right.
  Task<Result<bool>> is_whole(Call call, Address address, ObjectEntry entry);
  Task<Result<>> look_at_quarantined(Call call);

  HomeParts& parts_;
  Committer& committer_;
  TaskSeats seats_;
  TokenBucket pace_;
  Duration interval_;
  WaitList asked_;
  bool now_ = false;
  std::vector<Damage> found_;  // by opening; their objects are named with the next pass
};

}  // namespace cairn::store
