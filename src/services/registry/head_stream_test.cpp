#include "services/registry/head_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/base64.h"
#include "codec/json_reader.h"
#include "http/sse_parser.h"
#include "http/websocket/client_frames.h"
#include "services/registry/publisher.h"
#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

struct Told {
  std::string event;
  std::uint64_t version = 0, missed = 0, last = 0;
  std::string prev, root;
  std::optional<std::uint64_t> size;
};

// A subscriber on a machine of its own, which can be made to stand still.
struct Subscriber {
  explicit Subscriber(SimulatedRegistry& at)
      : place(at),
        node(at.world.add_node("far", 1)),
        machine(node.machine(0)),
        scope(node.shard(), node.scope().call()) {
    port = place.registry->make_port(machine);
  }
  ~Subscriber() {
    scope.cancel(StopReason::draining);
    CHECK(place.world.run_until([&] { return scope.empty(); }));
    feed.reset();
    port.reset();
  }
  void listen(std::optional<std::uint64_t> last = {}) {
    feed =
        std::make_unique<HeadStream>(*port, text, [this](std::uint64_t missed) { counted += missed; }, last);
    scope.spawn("subscriber", read(scope.call()));
  }
  Task<> read(Call call) {
    http::SseParser parser;
    for (;;) {
      std::string out;
      const auto more = co_await feed->next(call, out);
      if (!more || *more == http::EventFeed::More::no) co_return;
      for (std::string_view bytes = out; *parser.next(bytes);) take(parser.event());
    }
  }
  void take(const http::SseEvent& event) {
    codec::JsonReader reader;
    auto root = reader.parse(event.data)->object().value();
    Told one;
    one.event = event.event;
    if (one.event == "lagged") one.missed = root.required_uint("missed").value();
    if (one.event == "rollback") one.last = root.required_uint("last").value();
    auto head = one.event == "head" ? std::move(root) : root.required_object("head").value();
    one.version = head.required_uint("version").value();
    one.prev = head.required_string("prev").value();
    one.size = head.optional_uint("size").value();
    one.root = head.optional_string("root").value().value_or("");
    told.push_back(one);
  }
  bool until(std::uint64_t version) {
    return place.world.run_until([&] { return !told.empty() && told.back().version >= version; });
  }

  SimulatedRegistry& place;
  io::sim::Node& node;
  io::Machine machine;
  Scope scope;
  std::unique_ptr<Port> port;
  EventText text{.append = &http::append_event};
  std::unique_ptr<HeadStream> feed;
  std::vector<Told> told;
  std::uint64_t counted = 0;
};

TEST(HeadStream, what_was_dropped_on_the_way_to_a_busy_shard_is_told_and_counted) {
  SimulatedRegistry place;
  place.options.channel_bound = 1;
  ASSERT_TRUE(place.open());
  Subscriber far(place);
  far.listen();
  ASSERT_TRUE(far.until(0));
  place.world.pause(far.node);
  for (unsigned i = 1; i <= 5; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
  place.world.resume(far.node);
  ASSERT_TRUE(far.until(5));
  ASSERT_EQ(far.told.size(), 2u);
  EXPECT_EQ(far.told[1].event, "lagged");
  EXPECT_EQ(far.told[1].missed, 5u);
  EXPECT_EQ(far.counted, 5u);
  ASSERT_TRUE(place.advance(place.with_regions({6})));
  ASSERT_TRUE(far.until(6));
  EXPECT_EQ(far.told.back().event, "head");
  EXPECT_EQ(far.told.size(), 3u);
}

TEST(HeadStream, a_publisher_on_a_busy_shard_counts_what_never_came_to_it) {
  SimulatedRegistry place;
  place.options.channel_bound = 1;
  ASSERT_TRUE(place.open());
  Subscriber far(place);
  std::vector<std::uint64_t> told;
  std::uint64_t missed = 0;
  PublisherState state;
  const Publish note = [&told](Call, Head head) -> Task<Result<>> {
    told.push_back(head.version);
    return [] -> Task<Result<>> { co_return Result<>{}; }();
  };
  far.scope.spawn("publisher", publish_heads(
                                   far.scope.call(), far.port.get(), note,
                                   [&missed](std::uint64_t count) { missed += count; }, &state));
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  ASSERT_TRUE(place.world.run_until([&] { return told.size() == 1; }));
  place.world.pause(far.node);
  for (unsigned i = 2; i <= 5; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
  place.world.resume(far.node);
  ASSERT_TRUE(place.world.run_until([&] { return told.back() == 5; }));
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 5}));
  EXPECT_EQ(missed, 3u);
}

TEST(HeadStream, a_head_says_what_it_follows_and_what_the_tree_is_with_it) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  Subscriber far(place);
  far.listen();
  for (unsigned i = 1; i <= 3; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
  ASSERT_TRUE(far.until(3));
  ASSERT_EQ(far.told.size(), 4u);
  place.ledger([&](Ledger& ledger) {
    for (const Told& one : far.told) {
      EXPECT_EQ(one.prev,
                format_address(one.version > 0 ? ledger.version(one.version - 1).commit_b3 : Address{}));
      EXPECT_EQ(one.size, one.version + 1);
      EXPECT_EQ(one.root, codec::encode_base64(ledger.tree().root_at(one.version + 1)));
    }
  });
}

TEST(HeadStream, as_a_message_an_event_is_exactly_this_frame) {
  std::string out;
  append_message(out, "head", "7", R"({"version":7})");
  EXPECT_EQ(out, std::string("\x81\x2e") + R"({"event":"head","id":"7","data":{"version":7}})");
}

TEST(HeadStream, over_a_websocket_the_same_is_told) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  Subscriber far(place);
  far.text.append = &append_message;
  far.feed = std::make_unique<HeadStream>(*far.port, far.text, [](std::uint64_t) {}, 7);
  HeadTalk talk(std::move(far.feed));
  std::string out;
  bool done = false;
  struct Ask {
    static Task<> run(Call call, HeadTalk* talk, std::string* out, bool* done) {
      (void)co_await talk->next(call, *out);
      (void)co_await talk->next(call, *out);
      *done = true;
    }
  };
  far.scope.spawn("talk", Ask::run(far.scope.call(), &talk, &out, &done));
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  ASSERT_TRUE(place.world.run_until([&] { return done; }));
  const auto frames = http::websocket::read_server_frames(out);
  ASSERT_TRUE(frames && frames->size() == 2);
  EXPECT_THAT((*frames)[0].payload, testing::StartsWith(R"({"event":"rollback","id":"0","data":{"last":7,)"));
  EXPECT_THAT((*frames)[1].payload, testing::StartsWith(R"({"event":"head","id":"1","data":{"version":1,)"));
}

TEST(HeadStream, whoever_has_seen_more_than_there_is_is_told_of_the_rollback) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  Subscriber far(place);
  far.listen(7);
  ASSERT_TRUE(far.until(1));
  ASSERT_TRUE(place.advance(place.with_regions({2})));
  ASSERT_TRUE(far.until(2));
  ASSERT_EQ(far.told.size(), 2u);
  EXPECT_EQ(far.told[0].event, "rollback");
  EXPECT_EQ(far.told[0].last, 7u);
  EXPECT_EQ(far.told[0].version, 1u);
  EXPECT_EQ(far.told[1].event, "head");
  EXPECT_EQ(far.counted, 0u);
}

}  // namespace
}  // namespace cairn::registry
