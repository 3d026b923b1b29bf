// The typed client and the audit, against a registry in memory that can be told to lie.
#include <gtest/gtest.h>

#include <deque>

#include "client/registry_audit.h"
#include "client/sample_log.h"
#include "codec/base64.h"
#include "http/h1/server.h"
#include "http/query.h"
#include "http/sse.h"
#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::client {
namespace {

constexpr std::string_view id = "01HZZZZZZZZZZZZZZZZZZZZZZZ";

std::string head_json(const SampleLog& sample, std::uint64_t version) {
  const auto commit = format::decode_commit(as_bytes(sample.versions[version].commit));
  return fmt::format(R"({{"version":{},"payload_b3":"{}","commit_b3":"{}","committed_at":"{}"}})", version,
                     format_address(commit->payload_b3),
                     format_address(format::commit_b3(as_bytes(sample.versions[version].commit))),
                     format_rfc3339(commit->committed_at));
}

std::string version_json(const SampleLog& sample, std::uint64_t version) {
  const auto commit = format::decode_commit(as_bytes(sample.versions[version].commit));
  std::string approvals;
  codec::JsonWriter json(approvals);
  json.begin_array();
  for (const format::Approval& one : commit->approvals) format::write_approval_json(one, json);
  json.end_array().finish();
  std::string head = head_json(sample, version);
  head.pop_back();
  return fmt::format(R"({},"prev":"{}","approvals":{},"payload":{{}},"payload_cbor":"{}"}})", head,
                     format_address(commit->prev), approvals,
                     codec::encode_base64(as_bytes(sample.versions[version].payload)));
}

std::string hashes_json(const std::vector<crypto::MerkleHash>& hashes) {
  std::string list;
  for (const crypto::MerkleHash& hash : hashes)
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ",", codec::encode_base64(hash));
  return fmt::format(R"({{"hashes":[{}]}})", list);
}

// A stream that says its text and then ends or breaks.
class Said final : public io::BodySource {
 public:
  Said(std::string text, bool breaks) : text_(std::move(text)), breaks_(breaks) {}
  Task<Result<io::Piece>> next(Call call) override {
    if (!std::exchange(said_, true)) co_return io::Piece::memory(as_bytes(std::string_view(text_)));
    if (breaks_) {
      // What was said goes out first.
      (void)co_await sleep_for(call, Duration::seconds(1));
      co_return fail(ErrorCode::io_failed, "told to break");
    }
    co_return io::Piece();
  }

 private:
  std::string text_;
  bool breaks_, said_ = false;
};

class Desk final : public http::Gate, public http::Answerer {
 public:
  explicit Desk(const SampleLog& of) : sample(of), covered(of.tree.size()) {}

  SampleLog sample;
  std::uint64_t covered;                                        // by the checkpoint
  std::uint64_t pruned = 0;                                     // versions below it are
  std::map<std::string, std::string> instead;                   // by path: another body
  std::map<std::string, std::pair<int, std::string>> refusals;  // by path: status and code
  struct Stream {
    std::string text;
    bool breaks = false;
  };
  std::deque<Stream> streams;
  std::vector<std::string> last_event_ids;
  std::string body;  // of the last request

  Next begin(http::Exchange&) override { return Next::handle; }
  Task<> handle(Call call, http::Exchange& exchange) override {
    call = call.by(exchange.started + Duration::seconds(3600));
    body.clear();
    for (;;) {
      auto slice = co_await exchange.body.next(call);
      if (!slice || slice->empty()) break;
      body += as_text(slice->bytes());
    }
    answer(exchange);
  }
  void refuse(http::Exchange& exchange, Error error) override {
    refuse_with(exchange, std::max(400, status_of(error.code)), name_of(error.code));
  }
  void finished(http::Exchange&, bool) override {}
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override {}

 private:
  static void refuse_with(http::Exchange& exchange, int status, std::string_view code) {
    exchange.response.status = status;
    exchange.response.text =
        fmt::format(R"({{"error":{{"code":"{}","message":"because","corr_id":"corr-1234"}}}})", code);
    exchange.response.answer_text("application/json");
  }
  static void say(http::Exchange& exchange, std::string text, int status = 200) {
    exchange.response.status = status;
    exchange.response.text = std::move(text);
    exchange.response.answer_text("application/json");
  }

  void answer(http::Exchange& exchange) {
    const std::string path(exchange.request().path());
    std::string room(exchange.request().query().size(), '\0');
    const auto query = http::parse_query(exchange.request().query(), room);
    const auto number = [&](std::string_view name) {
      return std::stoull(std::string(query->find(name).value_or("0")));
    };
    if (const auto at = refusals.find(path); at != refusals.end())
      return refuse_with(exchange, at->second.first, at->second.second);
    if (const auto at = instead.find(path); at != instead.end()) return say(exchange, at->second);
    if (path == "/registry/head") return say(exchange, head_json(sample, sample.versions.size() - 1));
    if (path == "/registry/log") {
      std::string list;
      for (std::uint64_t i = number("from");
           i < std::min<std::uint64_t>(number("from") + number("limit"), sample.versions.size()); ++i)
        list += (list.empty() ? "" : ",") + head_json(sample, i);
      return say(exchange, fmt::format(R"({{"commits":[{}]}})", list));
    }
    if (path == "/registry/checkpoint") return say(exchange, sample.checkpoint(covered));
    if (path == "/registry/stream") return stream(exchange);
    if (path == "/registry/proof/inclusion")
      return say(exchange, hashes_json(sample.tree.inclusion_proof(number("version"), number("size"))));
    if (path == "/registry/proof/consistency")
      return say(exchange, hashes_json(sample.tree.consistency_proof(number("from"), number("to"))));
    if (path.starts_with("/registry/tile/")) {
      const auto tile = crypto::parse_tile_path(path.substr(10));
      if (!tile || crypto::tile_width(0, tile->index, sample.tree.size()) < tile->width)
        return refuse_with(exchange, 404, "not_found");
      const auto nodes = sample.tree.nodes(0, tile->index * crypto::tile_width_max, tile->width);
      return say(exchange, std::string(as_text(std::as_bytes(nodes))));
    }
    const std::uint64_t version = std::strtoull(path.substr(10).c_str(), nullptr, 10);
    if (version >= sample.versions.size()) return refuse_with(exchange, 404, "not_found");
    if (version < pruned) return refuse_with(exchange, 410, "pruned");
    say(exchange, version_json(sample, version));
  }

  void stream(http::Exchange& exchange) {
    last_event_ids.emplace_back(exchange.request().fields.find("Last-Event-ID").value_or("none"));
    if (streams.empty()) return refuse_with(exchange, 404, "not_found");
    Stream next = std::move(streams.front());
    streams.pop_front();
    exchange.response.answer_stream("text/event-stream",
                                    std::make_unique<Said>(std::move(next.text), next.breaks));
  }
};

class Fixture {
 public:
  explicit Fixture(std::uint64_t versions = 3)
      : world(1),
        host(world.add_node("host")),
        home(world.add_node("home")),
        host_machine_(host.machine()),
        home_machine_(home.machine()) {
    {
      ShardScope here(host.shard());
      desk_ = std::make_unique<Desk>(SampleLog(versions));
      server_ = std::make_unique<http::Server>(host_machine_, *desk_, *desk_, http::ServerOptions{});
      CHECK(server_->listen({"host", 80, {}}).has_value());
      server_->start(host.scope());
    }
    ShardScope here(home.shard());
    TransportOptions options;
    options.endpoint = {"host", 80, {}};
    transport_ = std::make_unique<Transport>(home_machine_, options);
    client_ = std::make_unique<RegistryClient>(*transport_);
  }
  ~Fixture() {
    run(closing(home.scope().call(), transport_.get()));
    {
      ShardScope here(home.shard());
      client_.reset();
      transport_.reset();
    }
    {
      ShardScope here(host.shard());
      server_->drain();
    }
    world.run_until([&] { return host.scope().empty(); });
    {
      ShardScope here(host.shard());
      server_.reset();
      desk_.reset();
    }
    world.stop();
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  Desk& desk() noexcept { return *desk_; }
  SampleLog& sample() noexcept { return desk_->sample; }
  RegistryClient& client() noexcept { return *client_; }
  Call call() noexcept { return home.scope().call(); }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    {
      ShardScope here(home.shard());
      home.scope().spawn("test", keep(std::move(task), &result));
    }
    CHECK(world.run_until([&] { return result.has_value(); }));
    return std::move(*result);
  }

  Outcome<AuditReport> audit(std::optional<crypto::Checkpoint> since = std::nullopt) {
    return run(audit_registry(call(), client_.get(), sample().roots, std::move(since), {}));
  }

  io::sim::World world;
  io::sim::Node& host;
  io::sim::Node& home;

 private:
  template <class T>
  static Task<> keep(Task<T> task, std::optional<T>* to) {
    to->emplace(co_await std::move(task));
  }
  static Task<bool> closing(Call call, Transport* transport) {
    co_await transport->close(call);
    co_return true;
  }

  io::Machine host_machine_;
  io::Machine home_machine_;
  std::unique_ptr<Desk> desk_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<RegistryClient> client_;
};

TEST(RegistryClient, reads_a_version_and_checks_what_it_shows) {
  Fixture f;
  const auto version = f.run(f.client().version(f.call(), 2));
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(version->payload, f.sample().versions[2].payload);
  EXPECT_EQ(encode(version->commit), f.sample().versions[2].commit);
  EXPECT_EQ(version->set.items.size(), 3u);

  const std::string good = version_json(f.sample(), 2);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    CHECK(at != text.npos);
    f.desk().instead["/registry/2"] = text.replace(at, from.size(), to);
    return f.run(f.client().version(f.call(), 2));
  };
  const auto time = with("1970-01-01T00:00:01.002Z", "1970-01-01T00:00:01.003Z");
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().code(), ErrorCode::integrity);
  f.desk().instead["/registry/2"] = version_json(f.sample(), 1);
  const auto other = f.run(f.client().version(f.call(), 2));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), ErrorCode::integrity);
  std::string swapped = good;
  const std::string mine = codec::encode_base64(as_bytes(f.sample().versions[2].payload));
  swapped.replace(swapped.find(mine), mine.size(),
                  codec::encode_base64(as_bytes(f.sample().versions[1].payload)));
  f.desk().instead["/registry/2"] = swapped;
  EXPECT_EQ(f.run(f.client().version(f.call(), 2)).error().code(), ErrorCode::integrity);
}

TEST(RegistryClient, approvals_of_a_liar_are_refused_not_trusted) {
  Fixture f;
  std::string text = version_json(f.sample(), 2);
  const std::size_t begin = text.find("\"approvals\":[") + 13, end = text.find(']', begin);
  const std::string one = text.substr(begin, end - begin);
  text.insert(end, "," + one);
  f.desk().instead["/registry/2"] = text;
  const auto twice = f.run(f.client().version(f.call(), 2));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code(), ErrorCode::upstream);
}

std::string proposal_json(const format::DescriptorSet& set, const std::string& payload) {
  return fmt::format(
      R"({{"proposal_id":"{}","version":{},"prev":"{}","payload_b3":"{}","payload":"{}","expires_at":"2030-01-01T00:00:00Z"}})",
      id, set.version, format_address(set.prev), format_address(crypto::hash_object(as_bytes(payload))),
      codec::encode_base64(as_bytes(payload)));
}

TEST(RegistryClient, a_proposal_must_hold_exactly_what_was_proposed) {
  Fixture f;
  const format::DescriptorSet set = f.sample().next_set();
  const format::ProposalDraft draft{.items = set.items};
  const std::string path = "/registry/proposals";
  f.desk().instead[path] = proposal_json(set, encode(set));
  const auto made = f.run(f.client().propose(f.call(), draft));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->id, id);
  EXPECT_EQ(made->payload, encode(set));
  std::string detail;
  EXPECT_EQ(format::parse_proposal_json(f.desk().body, detail), draft) << detail;

  const auto code_with = [&](const format::DescriptorSet& of, const std::string& payload) {
    f.desk().instead[path] = proposal_json(of, payload);
    const auto answer = f.run(f.client().propose(f.call(), draft));
    return answer ? ErrorCode::ok : answer.error().code();
  };
  format::DescriptorSet more = set;
  more.items.push_back(format::sample_item(R"({"type":"region","id":"mine"})"));
  EXPECT_EQ(code_with(more, encode(more)), ErrorCode::integrity);
  format::DescriptorSet late = set;
  late.expiry = WallTime{2'000'000};
  EXPECT_EQ(code_with(late, encode(late)), ErrorCode::integrity);
  format::DescriptorSet elsewhere = set;
  elsewhere.prev = Address{};
  EXPECT_EQ(code_with(set, encode(elsewhere)), ErrorCode::integrity);
  std::string lie = proposal_json(set, encode(set));
  const std::size_t at = lie.find("\"payload_b3\":\"b3:") + 17;
  lie[at] = lie[at] == '0' ? '1' : '0';
  f.desk().instead[path] = lie;
  EXPECT_EQ(f.run(f.client().propose(f.call(), draft)).error().code(), ErrorCode::integrity);
}

TEST(RegistryClient, events_of_the_audit_trail_come_in_order_and_must_go_on) {
  Fixture f;
  const std::string path = "/registry/audit";
  const auto event = [](unsigned sequence) {
    return fmt::format(R"({{"sequence":{},"at":"2026-11-17T12:00:00Z","op":"commit","code":"ok","count":2}})",
                       sequence);
  };
  f.desk().instead[path] = fmt::format(
      R"({{"events":[{},{{"sequence":9,"at":"2026-11-17T12:00:00Z","op":"approve","code":"invalid_sig","count":1,)"
      R"("who":"k/f","proposal_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}}],"next":9}})",
      event(7));
  const auto page = f.run(f.client().audit(f.call(), 6, 2));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->events.size(), 2u);
  EXPECT_EQ(page->events[0].count, 2u);
  EXPECT_EQ(page->events[0].who, "");
  EXPECT_EQ(page->events[1].who, "k/f");
  EXPECT_EQ(page->next, 9u);
  f.desk().instead[path] = fmt::format(R"({{"events":[{}],"next":7}})", event(7));
  EXPECT_FALSE(f.run(f.client().audit(f.call(), 7, 2)));
  f.desk().instead[path] = fmt::format(R"({{"events":[{},{}]}})", event(7), event(7));
  EXPECT_FALSE(f.run(f.client().audit(f.call(), 6, 2)));
  f.desk().instead[path] = R"({"events":[{"sequence":1}]})";
  EXPECT_FALSE(f.run(f.client().audit(f.call(), std::nullopt, 2)));
}

TEST(RegistryClient, a_list_of_proposals_goes_on_page_by_page_and_must_go_on) {
  Fixture f;
  const format::DescriptorSet set = f.sample().next_set();
  const std::string one = proposal_json(set, encode(set)), path = "/registry/proposals";
  const std::string later = "01J" + std::string(23, 'Z');
  f.desk().instead[path] = fmt::format(R"({{"proposals":[{}],"next":"{}"}})", one, id);
  const auto first = f.run(f.client().proposals(f.call()));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->proposals.size(), 1);
  EXPECT_EQ(first->next, id);
  f.desk().instead[path] = fmt::format(R"({{"proposals":[{}]}})", one);
  const auto last = f.run(f.client().proposals(f.call(), first->next));
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->next, "");
  for (const std::string_view next : {std::string_view(id), std::string_view("x/../head")}) {
    f.desk().instead[path] = fmt::format(R"({{"proposals":[{}],"next":"{}"}})", one, next);
    EXPECT_FALSE(f.run(f.client().proposals(f.call(), std::string(id)))) << next;
  }
  f.desk().instead[path] = fmt::format(R"({{"proposals":[{}],"next":"{}"}})", one, later);
  EXPECT_TRUE(f.run(f.client().proposals(f.call(), std::string(id))));
}

TEST(RegistryClient, what_is_no_id_never_becomes_a_path) {
  Fixture f;
  for (const std::string bad : {"", "../head", "x", "01HZZZZZZZZZZZZZZZZZZZZZZ/"}) {
    EXPECT_EQ(f.run(f.client().proposal(f.call(), bad)).error().code(), ErrorCode::invalid);
    EXPECT_EQ(f.run(f.client().commit(f.call(), bad)).error().code(), ErrorCode::invalid);
    EXPECT_EQ(f.run(f.client().supersede(f.call(), bad)).error().code(), ErrorCode::invalid);
  }
}

TEST(RegistryClient, the_servers_refusals_keep_their_code) {
  Fixture f;
  f.desk().refusals[fmt::format("/registry/commit/{}", id)] = {409, "quorum_failed"};
  EXPECT_EQ(f.run(f.client().commit(f.call(), std::string(id))).error().code(), ErrorCode::quorum_failed);
  f.desk().refusals["/registry/7"] = {410, "pruned"};
  EXPECT_EQ(f.run(f.client().version(f.call(), 7)).error().code(), ErrorCode::pruned);
}

TEST(RegistryClient, a_long_poll_tells_what_the_head_is) {
  Fixture f;
  for (const std::uint64_t after : {1u, 2u, 3u}) {
    const auto head = f.run(f.client().head_after(f.call(), after, Duration::seconds(5)));
    ASSERT_TRUE(head);
    EXPECT_EQ((*head)->version, 2u);
  }
}

// As the stream says it.
std::string told_json(const SampleLog& sample, std::uint64_t version) {
  std::string head = head_json(sample, version);
  head.pop_back();
  return fmt::format(R"({},"prev":"{}","size":{},"root":"{}"}})", head,
                     format_address(format::decode_commit(as_bytes(sample.versions[version].commit))->prev),
                     version + 1, codec::encode_base64(sample.tree.root_at(version + 1)));
}
RegistryHead head_of(const SampleLog& sample, std::uint64_t version, bool with_root = false) {
  RegistryHead head;
  head.version = version;
  head.commit_b3 = format::commit_b3(as_bytes(sample.versions[version].commit));
  if (with_root) head.root = sample.tree.root_at(version + 1);
  return head;
}

std::string event(const SampleLog& sample, std::uint64_t version) {
  std::string out;
  http::append_event(out, "head", fmt::format("{}", version), told_json(sample, version));
  return out;
}
std::string lagged_event(const SampleLog& sample, std::uint64_t version) {
  std::string out;
  http::append_event(out, "lagged", fmt::format("{}", version),
                     fmt::format(R"({{"missed":7,"head":{}}})", told_json(sample, version)));
  return out;
}
// The same up to `shared` versions, and then others.
SampleLog fork_of(std::uint64_t shared, std::uint64_t count) {
  SampleLog other(shared);
  format::DescriptorSet set = other.next_set();
  set.created_at.ms += 1;
  other.add(other.sign(set, other.signer()));
  while (other.versions.size() < count) other.grow();
  return other;
}

TEST(RegistryClient, a_follower_comes_back_where_it_was_and_sees_each_head_once) {
  Fixture f(6);
  const SampleLog& sample = f.sample();
  f.desk().streams.push_back({event(sample, 2) + event(sample, 3), true});
  f.desk().streams.push_back({event(sample, 3) + event(sample, 4), false});
  f.desk().streams.push_back({lagged_event(sample, 5), false});
  std::vector<std::string> told;
  const auto ended = f.run(f.client().follow(f.call(), head_of(sample, 1), [&](const FollowEvent& one) {
    switch (one.kind) {
      case FollowEvent::Kind::head:
        told.push_back(fmt::format("head {}", one.head->version));
        break;
      case FollowEvent::Kind::lagged:
        told.push_back(fmt::format("lagged {} {}", one.missed, one.head->version));
        break;
      case FollowEvent::Kind::lost:
        told.emplace_back("lost");
        break;
    }
    return told.size() < 7;
  }));
  EXPECT_TRUE(ended);
  EXPECT_EQ(told,
            (std::vector<std::string>{"head 2", "head 3", "lost", "head 4", "lost", "lagged 7 5", "lost"}));
  EXPECT_EQ(f.desk().last_event_ids, (std::vector<std::string>{"1", "3", "4"}));
}

// Follows from version 2 of what `seen` has, through these streams: how it ends.
ErrorCode follow_through(const SampleLog& seen, const SampleLog& served, std::vector<std::string> streams,
                         std::size_t enough = ~std::size_t{0}) {
  Fixture f(3);
  f.desk().sample = served;
  for (std::string& text : streams) f.desk().streams.push_back({std::move(text), false});
  std::size_t count = 0;
  const auto ended = f.run(f.client().follow(f.call(), head_of(seen, 2), [&](const FollowEvent& one) {
    if (one.kind != FollowEvent::Kind::lost) ++count;
    return count < enough;
  }));
  return ended ? ErrorCode::ok : ended.error().code();
}

TEST(RegistryClient, a_follower_notices_that_the_registry_was_rolled_back) {
  const SampleLog sample(8), old(2);
  std::string rollback;
  http::append_event(rollback, "rollback", "1",
                     fmt::format(R"({{"last":2,"head":{}}})", told_json(sample, 1)));
  EXPECT_EQ(follow_through(sample, sample, {rollback}), ErrorCode::integrity);
  // A server that says nothing of it, and one that is another when it is asked again.
  EXPECT_EQ(follow_through(sample, sample, {event(sample, 1)}), ErrorCode::integrity);
  EXPECT_EQ(follow_through(sample, old, {event(sample, 3), ""}), ErrorCode::integrity);
}

TEST(RegistryClient, a_follower_notices_that_the_registry_has_another_history) {
  const SampleLog sample(8), other = fork_of(2, 8), later = fork_of(5, 8);
  EXPECT_EQ(follow_through(sample, sample, {event(sample, 3), event(sample, 4)}, 2), ErrorCode::ok);
  // By what the next head follows; by the head that was seen itself; by the proof over what was missed.
  EXPECT_EQ(follow_through(sample, other, {event(other, 3)}), ErrorCode::integrity);
  EXPECT_EQ(follow_through(sample, other, {event(other, 2)}), ErrorCode::integrity);
  EXPECT_EQ(follow_through(sample, later, {event(later, 3) + lagged_event(later, 7)}, 2), ErrorCode::ok);
  EXPECT_EQ(follow_through(sample, other, {event(sample, 3) + lagged_event(other, 7)}), ErrorCode::integrity);
  EXPECT_EQ(follow_through(sample, other, {event(sample, 3) + event(other, 7)}), ErrorCode::integrity);
  // Without a root of what was seen, by what the log has in its place.
  EXPECT_EQ(follow_through(sample, other, {lagged_event(other, 7)}), ErrorCode::integrity);
  EXPECT_EQ(follow_through(sample, sample, {lagged_event(sample, 7)}, 1), ErrorCode::ok);
  // Nothing new comes, but another server answers than before.
  EXPECT_EQ(follow_through(sample, other, {"", ""}), ErrorCode::integrity);
}

TEST(RegistryClient, a_proof_that_does_not_hold_is_no_growth) {
  Fixture f(8);
  const SampleLog& sample = f.sample();
  const auto grown = [&](std::uint64_t from, std::uint64_t to) {
    RegistryHead now = head_of(sample, to, true);
    return f.run(f.client().check_grown(f.call(), head_of(sample, from, true), now));
  };
  EXPECT_TRUE(grown(1, 7));
  EXPECT_TRUE(grown(7, 7));
  EXPECT_EQ(grown(7, 1).error().code(), ErrorCode::integrity);
  f.desk().instead["/registry/proof/consistency"] = hashes_json({});
  EXPECT_EQ(grown(1, 7).error().code(), ErrorCode::integrity);
}

TEST(RegistryClient, a_follower_that_is_refused_for_good_says_so) {
  Fixture f;
  f.desk().refusals["/registry/stream"] = {403, "forbidden"};
  const auto ended =
      f.run(f.client().follow(f.call(), std::nullopt, [](const FollowEvent&) { return true; }));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), ErrorCode::forbidden);
}

TEST(RegistryAudit, a_right_log_passes_also_where_the_head_is_ahead_of_the_checkpoint) {
  Fixture f(5);
  for (const std::uint64_t covered : {5u, 3u}) {
    f.desk().covered = covered;
    const auto report = f.audit();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->why, "");
    EXPECT_EQ(report->versions, 5u);
    EXPECT_EQ(report->checkpoint_size, covered);
    EXPECT_TRUE(report->approvals_checked);
  }
}

TEST(RegistryAudit, a_version_that_no_signer_approved_is_named) {
  Fixture f(4);
  f.sample().add(f.sample().sign(f.sample().next_set(), format::sample_key(9)));
  f.desk().covered = 5;
  const auto report = f.audit();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->bad_version, 4u);
  EXPECT_TRUE(report->why.starts_with("version 4: ")) << report->why;
}

TEST(RegistryAudit, a_version_that_the_server_finds_damaged_is_named) {
  Fixture f(4);
  f.desk().refusals["/registry/2"] = {502, "integrity"};
  const auto report = f.audit();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->bad_version, 2u);
}

TEST(RegistryAudit, a_checkpoint_over_another_log_is_found) {
  Fixture f(4);
  SampleLog forked(3);
  format::DescriptorSet set = forked.next_set();
  set.items.pop_back();
  forked.add(forked.sign(set, forked.signer()));
  f.desk().instead["/registry/checkpoint"] = forked.checkpoint();
  const auto report = f.audit();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok());
  EXPECT_TRUE(report->why.starts_with("checkpoint: ")) << report->why;
}

TEST(RegistryAudit, a_proof_that_does_not_hold_is_found) {
  Fixture f(4);
  f.desk().instead["/registry/proof/inclusion"] = hashes_json({crypto::MerkleHash{}, crypto::MerkleHash{}});
  const auto report = f.audit();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->bad_version, 3u);
}

TEST(RegistryAudit, an_earlier_checkpoint_must_be_the_beginning_of_this_one) {
  Fixture f(6);
  const auto since = open_checkpoint(f.sample().checkpoint(3), f.sample().roots);
  EXPECT_TRUE(f.audit(*since)->ok());
  crypto::Checkpoint rewritten = *since;
  rewritten.root[5] ^= std::byte{1};
  EXPECT_FALSE(f.audit(rewritten)->ok());
  crypto::Checkpoint longer = *since;
  longer.size = 7;
  EXPECT_FALSE(f.audit(longer)->ok());
}

TEST(RegistryAudit, what_was_pruned_is_believed_by_the_signed_root) {
  for (const std::uint64_t pruned : {1u, 5u, 257u}) {
    Fixture f(260);
    f.desk().pruned = pruned;
    const auto report = f.audit();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->why, "");
    EXPECT_EQ(report->first, pruned);
    EXPECT_EQ(report->versions, 260 - pruned);
    EXPECT_FALSE(report->approvals_checked);
  }
}

}  // namespace
}  // namespace cairn::client
