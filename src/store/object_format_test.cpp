#include "store/object_format.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

template <class T>
void expect_strict(const T& value) {
  const std::string text = encode(value);
  T out;
  ASSERT_TRUE(decode(as_bytes(text), out));
  EXPECT_EQ(encode(out), text);
  for (std::size_t size = 0; size < text.size(); ++size) {
    T cut;
    EXPECT_FALSE(decode(as_bytes(std::string_view(text).substr(0, size)), cut)) << size;
  }
  T more;
  EXPECT_FALSE(decode(as_bytes(text + '\0'), more));
}

TEST(ObjectFormat, every_record_and_entry_decodes_only_when_it_is_whole) {
  Address address;
  address.bytes.fill(std::byte{7});
  const Ulid token{1, 2};
  const crypto::Hash hash{};
  expect_strict(ObjectRecord{address, "text/plain", {}, false});
  expect_strict(ObjectRecord{address, "", {hash, hash}, true});
  expect_strict(PartRecord{token, 3, hash, hash, {hash}});
  expect_strict(CommitRecord{address, token, crypto::part_size + 1, "a/b", {hash, hash}, true});
  expect_strict(RemoveRecord{address, 9});
  expect_strict(PinRecord{address, 9, true});
  expect_strict(UploadRecord{token, 5, WallTime{77}, "x/y"});
  expect_strict(AbortRecord{token, WallTime{77}});
  expect_strict(QuarantineRecord{address, 9, {1, 4096}});
  const Place place{{1, 4096}, 40, 100};
  expect_strict(ObjectEntry{9, 100, place, std::nullopt, true, 10, 11, "text/plain"});
  expect_strict(ObjectEntry{9, 100, place, token, false, 0, 0, ""});
  expect_strict(ObjectEntry{9, 100, place, token, true, 10, 11, "", true});
  expect_strict(PartEntry{9, place, hash, hash});
  expect_strict(UploadEntry{9, place, 10, WallTime{5}, "a/b", std::nullopt});
  expect_strict(UploadEntry{9, place, 10, WallTime{5}, "a/b", address});
  expect_strict(TombstoneEntry{9, place, {1, 2, 3}});
  expect_strict(LogPoint{9, {1, 4096}});
}

// What was written before it was kept, or begun by nobody, has no owner; one that is there is there whole.
TEST(ObjectFormat, an_upload_says_who_began_it_or_nothing) {
  const UploadOwner owner{Ulid{3, 4}, "tenant"};
  const auto check = [&](auto without) {
    auto with = without;
    with.owner = owner;
    const std::string before = encode(without), after = encode(with);
    EXPECT_TRUE(after.starts_with(before));
    auto out = with;
    ASSERT_TRUE(decode(as_bytes(before), out));
    EXPECT_EQ(out.owner, UploadOwner());
    ASSERT_TRUE(decode(as_bytes(after), out));
    EXPECT_EQ(out.owner, owner);
    for (std::size_t size = before.size() + 1; size < after.size(); ++size)
      EXPECT_FALSE(decode(as_bytes(std::string_view(after).substr(0, size)), out)) << size;
    EXPECT_FALSE(decode(as_bytes(after + '\0'), out));
  };
  Address address;
  address.bytes.fill(std::byte{7});
  check(UploadRecord{{1, 2}, 5, WallTime{77}, "x/y"});
  check(UploadEntry{9, {{1, 4096}, 40, 100}, 10, WallTime{5}, "a/b", std::nullopt});
  check(UploadEntry{9, {{1, 4096}, 40, 100}, 10, WallTime{5}, "a/b", address});
}

TEST(ObjectFormat, a_commit_names_exactly_the_parts_of_its_size) {
  CommitRecord record;
  record.size = 3 * crypto::part_size;
  record.parts.resize(3);
  CommitRecord out;
  EXPECT_TRUE(decode(as_bytes(encode(record)), out));
  record.parts.resize(2);
  EXPECT_FALSE(decode(as_bytes(encode(record)), out));
  record.size = 0;
  record.parts.resize(1);
  EXPECT_TRUE(decode(as_bytes(encode(record)), out));
}

TEST(ObjectFormat, an_entry_claims_no_more_bytes_than_its_kind_can_have) {
  ObjectEntry entry, out;
  entry.size = crypto::part_size;
  EXPECT_TRUE(decode(as_bytes(encode(entry)), out));
  entry.size = crypto::part_size + 1;
  EXPECT_FALSE(decode(as_bytes(encode(entry)), out));
  entry.token.emplace();
  EXPECT_TRUE(decode(as_bytes(encode(entry)), out));
  entry.size = crypto::object_size_max + 1;
  EXPECT_FALSE(decode(as_bytes(encode(entry)), out));
}

RC_GTEST_PROP(ObjectFormat, no_bytes_that_are_not_a_record_are_taken_for_more_than_they_hold,
              (std::string bytes)) {
  ObjectRecord object;
  CommitRecord commit;
  PartRecord part;
  if (decode(as_bytes(bytes), object)) RC_ASSERT(encode(object) == bytes);
  if (decode(as_bytes(bytes), commit)) RC_ASSERT(encode(commit) == bytes);
  if (decode(as_bytes(bytes), part)) RC_ASSERT(encode(part) == bytes);
}

TEST(ObjectFormat, data_is_right_only_when_every_byte_is) {
  ByteBudget budget(1 << 30);
  for (const std::size_t size : {0u, 1u, 65536u, 65537u, 300'000u}) {
    for (const bool whole : {true, false}) {
      if (size == 0 && !whole) continue;
      std::string bytes = sample(size);
      Draft draft(budget, whole ? 0 : 3);
      ASSERT_TRUE(draft.add(as_bytes(bytes)));
      Address address;
      PartRecord part;
      const auto taken = whole ? draft.take_object("", address) : draft.take_part({1, 2}, part);
      RecordHeader header;
      header.kind = taken.record.kind;
      const ByteView meta = as_bytes(taken.record.meta);
      EXPECT_TRUE(is_data_right(header, meta, as_bytes(bytes)));
      EXPECT_FALSE(is_data_right(header, meta, as_bytes(bytes + "x")));
      if (size == 0) continue;
      EXPECT_FALSE(is_data_right(header, meta, as_bytes(std::string_view(bytes).substr(1))));
      for (std::size_t at = 0; at < size; at += 40'009) {
        bytes[at] = static_cast<char>(bytes[at] ^ 4);
        EXPECT_FALSE(is_data_right(header, meta, as_bytes(bytes)));
        bytes[at] = static_cast<char>(bytes[at] ^ 4);
      }
    }
  }
  RecordHeader control;
  control.kind = static_cast<std::uint8_t>(RecordKind::remove);
  EXPECT_TRUE(is_data_right(control, {}, {}));
  EXPECT_FALSE(is_data_right(control, {}, as_bytes("x")));
}

TEST(ObjectFormat, keys_sort_as_what_they_stand_for) {
  EXPECT_LT(part_key({1, 2}, 255), part_key({1, 2}, 256));
  EXPECT_LT(part_key({1, 2}, 0xffffffff), parts_end({1, 2}));
  EXPECT_LE(parts_end({1, 2}), part_key({1, 3}, 0));
  EXPECT_LT(parts_end({1, ~std::uint64_t{0}}), std::string(part_key({3, 0}, 0)));
  EXPECT_LT(quarantine_key(255), quarantine_key(256));
  EXPECT_EQ(prefix_end("a\xff"), "b");
  EXPECT_EQ(prefix_end("\xff\xff"), "");
}

}  // namespace
}  // namespace cairn::store
