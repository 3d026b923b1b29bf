// Indexer: turns records of the log into changes of the index. The same code takes in a record that was just
// appended and one that is replayed, so that an index made anew equals the one that was kept.
//
//   [IX-1] Of several records about one thing the one with the highest origin wins; of several copies of one
//         record the one with the highest sequence. So the order of compaction's copies does not matter.
//   [IX-2] The next apply() sees the changes of this one. The changes reach the index in one batch, with the
//         log position that the batch stands for.
//   [IX-3] live(segment) is the size of the records in it that an entry points to, and so never below zero.
//         An index that breaks this, such as an older copy, is made anew.
//   [IX-4] A tombstone names every segment that holds an older copy of its address, also a copy that
//         compaction left behind. The record of the removal may go only when all of those segments are gone.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/kv.h"
#include "store/object_format.h"

namespace cairn::store {

struct Totals {
  std::uint64_t objects = 0, bytes = 0, uploads = 0, quarantined = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

// An upload that is neither committed nor ended.
struct OpenUpload {
  Ulid holder{};            // who began it; all uploads without an owner share one
  std::uint64_t bytes = 0;  // of the parts that are there
  Instant last_part{};      // or when it began; not known if the index was opened since
};

class Indexer {
 public:
  // `kv` outlives it.
  explicit Indexer(Kv& kv) noexcept : kv_(kv) {}

  // Where the index stands, and its totals. Cancel: clean.
  Task<Result<LogPoint>> load(Call call);
  // The index is being made anew: its answers are not complete yet. Also true when that began before a crash.
  bool rebuilding() const noexcept { return rebuilding_; }
  // Cancel: partial — forget() what was applied.
  Task<Result<>> apply(Call call, RecordHeader header, Position at, std::string meta);
  // All changes since the last take, with the log position that they stand for. An index that contradicts
  // itself is not written to any more: it counts as damaged, and the error says so.
  Result<KvBatch> take(const LogPoint& point);
  // Goes on as `other`, whose map has taken the place of this one's. Precondition: nothing was applied to
  // either since take().
  void become(Indexer&& other);
  void forget() noexcept { overlay_.clear(); }
  std::size_t changes() const noexcept { return overlay_.size(); }
  // Addresses whose bytes are no longer served, since the last call.
  std::vector<Address> take_gone() { return std::exchange(gone_, {}); }
  // From now on apply() adds to `changed` each address whose bytes begin or cease to be served. Null: it does
  // not.
  void note_changes(std::vector<Address>* changed) noexcept { changed_ = changed; }

  // Sees changes that were applied and not yet taken. Cancel: clean.
  Task<Result<std::optional<ObjectEntry>>> object(Call call, Address address);
  // The same, and remembered until take() or forget(), so that planning and applying a change look the object
  // up only once. For the one writer: only apply() may change the index until then.
  Task<Result<std::optional<ObjectEntry>>> object_to_change(Call call, Address address);
  Task<Result<std::optional<PartEntry>>> part(Call call, Ulid token, std::uint32_t index);
  Task<Result<std::optional<UploadEntry>>> upload(Call call, Ulid token);
  Task<Result<std::optional<TombstoneEntry>>> tombstone(Call call, Address address);
  struct NumberedPart {
    std::uint32_t index;
    PartEntry entry;
  };
  // At most `limit` parts from `first` on, in order.
  Task<Result<std::vector<NumberedPart>>> parts(Call call, Ulid token, std::uint32_t first,
                                                std::size_t limit);

  // Whether a record of a segment that compaction looks at is still needed there.
  Task<Result<bool>> is_needed(Call call, const Entry& entry, WallTime now);
  // The object that such a record is a copy of. Its tombstone may go once the copy's segment is gone.
  static std::optional<Address> address_of(const Entry& entry);
  // A segment is gone, and with it copies of these addresses.
  Task<Result<>> segment_gone(Call call, std::uint32_t segment, std::vector<Address> copies);
  // Segments that are gone, and it is not known what was in them. Precondition: nothing was applied since
  // take().
  Task<Result<>> segments_gone(Call call, std::set<std::uint32_t> segments);
  // After an index was made anew: removes parts and words that belong to nothing. Precondition: as above.
  Task<Result<>> end_rebuilding(Call call);
  // Removes parts of open uploads in lost places: the client has to send them again. Precondition: as above.
  Task<Result<>> forget_parts(Call call, std::function<bool(const Place&)> is_lost);
  // Takes over an object in quarantine that another index knew of and that the log does not have any more. To
  // call it absent would be a lie. Precondition: this index does not have it.
  void keep_lost(const Address& address, const ObjectEntry& entry, const QuarantineRecord& word);
  // Forgets, without a record, an upload whose object was made and whose time is over.
  void forget_committed(const Ulid& token) { change(upload_key(token), std::nullopt); }

  const Totals& totals() const noexcept { return totals_; }
  // All open uploads, and the bytes of all of them. Derived from the index when it is loaded.
  const std::map<Ulid, OpenUpload>& open_uploads() const noexcept { return open_uploads_; }
  std::uint64_t upload_bytes() const noexcept { return upload_bytes_; }
  // Something of the upload arrived just now. Ignored if the upload is not open.
  void touch_upload(const Ulid& token, Instant now) noexcept;
  const std::map<std::uint32_t, std::int64_t>& live() const noexcept { return live_; }
  // Bytes of removal records in a segment. No entry counts them as alive, and they cannot go before the
  // copies they are about. An estimate: those from before this process are known only after count_removals().
  std::uint64_t removal_bytes(std::uint32_t segment) const noexcept;
  // Counts anew the removal records up to this sequence, the last one. Later ones are counted as they come.
  // Precondition: nothing is compacted meanwhile. Cancel: partial — some are counted.
  Task<Result<>> count_removals(Call call, std::uint64_t sequence);
  // The live bytes of all segments, without a walk over them. A segment below zero counts as nothing.
  std::uint64_t live_bytes() const noexcept { return live_bytes_; }

 private:
  static constexpr std::size_t parts_page = 512;

  std::unexpected<Error> bad_entry() noexcept;
  template <class T>
  Result<std::optional<T>> decoded(Result<std::optional<std::string>> value);
  // The caller keeps the key until it has the value.
  Task<Result<std::optional<std::string>>> value(Call call, std::string_view key);
  void change(std::string_view key, std::optional<std::string> value);
  void count(const Place& place, bool alive);
  void count_removal(const TombstoneEntry& shadow, bool needed);
  void set_live(std::int64_t& live, std::int64_t bytes) noexcept;
  void erase_live(std::uint32_t segment);
  void note_change(const Address& address) {
    if (changed_ != nullptr) changed_->push_back(address);
  }

  Task<Result<>> apply_object(Call call, RecordHeader header, Place place, ObjectEntry fresh,
                              Address address);
  Task<Result<>> apply_part(Call call, RecordHeader header, Place place, PartRecord record);
  Task<Result<>> apply_remove(Call call, RecordHeader header, Place place, RemoveRecord record);
  Task<Result<>> apply_pin(Call call, RecordHeader header, PinRecord record);
  Task<Result<>> apply_upload(Call call, RecordHeader header, Place place, UploadRecord record);
  Task<Result<>> apply_abort(Call call, AbortRecord record);
  Task<Result<>> apply_quarantine(Call call, RecordHeader header, QuarantineRecord record);
  Task<Result<>> drop_parts(Call call, Ulid token);
  Task<Result<>> load_uploads(Call call);
  // Marks the upload as open, with the parts that are there already; or as no longer open.
  Task<Result<>> open_upload(Call call, Ulid token, Ulid holder);
  void close_upload(const Ulid& token) noexcept;
  void grow_upload(const Ulid& token, std::uint64_t more, std::uint64_t less) noexcept;
  // No entry points to this entry's record any more; the record stays in its segment as a stale copy.
  Task<Result<>> retire(Call call, Address address, ObjectEntry entry, TombstoneEntry& shadow);
  void remember_stale(TombstoneEntry& shadow, std::uint32_t segment);
  // Compaction may have moved an object behind a word on it: the word is kept until the object comes.
  Task<Result<>> keep_word(Call call, RecordHeader header, Address address, std::uint64_t object,
                           std::string meta);
  Task<Result<>> apply_words(Call call, Address address, std::uint64_t object);
  Task<Result<>> drop_orphans(Call call);

  Kv& kv_;
  struct Known {
    std::optional<std::string> value;
    bool changed = false;  // else only looked up
  };
  std::map<std::string, Known, std::less<>> overlay_;
  std::map<std::uint32_t, std::int64_t> live_;
  std::map<std::uint32_t, std::int64_t> removals_;
  std::uint64_t live_bytes_ = 0;
  std::set<std::uint32_t> touched_;
  Totals totals_;
  std::map<Ulid, OpenUpload> open_uploads_;
  std::uint64_t upload_bytes_ = 0;  // their sum
  std::vector<Address> gone_;
  std::vector<Address>* changed_ = nullptr;
  bool rebuilding_ = false;
  bool has_tombstones_ = false;  // or had: most stores never do, and need not look for them
};

}  // namespace cairn::store
