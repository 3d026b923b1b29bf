// The typed client of the index, against a server that says what it is told to say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/index_client.h"
#include "client/reference.h"
#include "crypto/blake3.h"
#include "http/h1/server.h"
#include "io/sim/world.h"

namespace cairn::client {
namespace {

const Address site = crypto::hash_object(as_bytes("site"));
const Address other = crypto::hash_object(as_bytes("other"));
const std::string site_text = format_address(site), other_text = format_address(other);
constexpr std::string_view time_text = "2026-01-02T03:04:05Z";
constexpr std::string_view key_text = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";

struct Said {
  int status = 200;
  std::string text;
  std::string etag = {};
};

Said said_error(int status, std::string_view code) {
  return {status,
          fmt::format(R"({{"error":{{"code":"{}","message":"because","corr_id":"corr-1234"}}}})", code)};
}

class Desk final : public http::Gate, public http::Answerer {
 public:
  std::map<std::string, std::deque<Said>> answers;  // by `METHOD target`; the last one stays
  std::vector<std::string> seen;                    // `METHOD target [If-Match: …] [If-None-Match: …]`
  std::string body;                                 // of the last request

  Next begin(http::Exchange&) override { return Next::handle; }
  Task<> handle(Call call, http::Exchange& exchange) override {
    call = call.by(exchange.started + Duration::seconds(3600));
    body.clear();
    for (;;) {
      auto slice = co_await exchange.body.next(call);
      if (!slice || slice->empty()) break;
      body += as_text(slice->bytes());
    }
    const std::string asked =
        fmt::format("{} {}", http::name_of(exchange.request().method), exchange.request().target());
    seen.push_back(asked);
    for (const std::string_view name : {"If-Match", "If-None-Match"})
      if (const auto value = exchange.request().fields.find(name))
        seen.back() += fmt::format(" {}: {}", name, *value);
    const auto at = answers.find(asked);
    const Said said = at == answers.end() ? said_error(404, "not_found") : at->second.front();
    if (at != answers.end() && at->second.size() > 1) at->second.pop_front();
    exchange.response.status = said.status;
    exchange.response.text = said.text;
    if (!said.etag.empty()) exchange.response.add_field("ETag", said.etag);
    exchange.response.answer_text("application/json");
  }
  void refuse(http::Exchange& exchange, Error) override { exchange.response.status = 400; }
  void finished(http::Exchange&, bool) override {}
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override {}
};

class IndexClientTest : public testing::Test {
 protected:
  IndexClientTest()
      : host_(world_.add_node("host")),
        home_(world_.add_node("home")),
        host_machine_(host_.machine()),
        home_machine_(home_.machine()) {
    {
      ShardScope here(host_.shard());
      server_ = std::make_unique<http::Server>(host_machine_, desk_, desk_, http::ServerOptions{});
      CHECK(server_->listen({"host", 80, {}}).has_value());
      server_->start(host_.scope());
    }
    ShardScope here(home_.shard());
    TransportOptions options;
    options.endpoint = {"host", 80, {}};
    transport_ = std::make_unique<Transport>(home_machine_, options);
    client_ = std::make_unique<IndexClient>(*transport_);
  }
  ~IndexClientTest() override {
    run(closing(call(), transport_.get()));
    {
      ShardScope here(home_.shard());
      client_.reset();
      transport_.reset();
    }
    {
      ShardScope here(host_.shard());
      server_->drain();
    }
    world_.run_until([&] { return host_.scope().empty(); });
    {
      ShardScope here(host_.shard());
      server_.reset();
    }
    world_.stop();
  }

  Call call() noexcept { return home_.scope().call(); }
  IndexClient& client() noexcept { return *client_; }
  Desk& desk() noexcept { return desk_; }
  void say(const std::string& asked, Said said) { desk_.answers[asked] = {std::move(said)}; }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    {
      ShardScope here(home_.shard());
      home_.scope().spawn("test", keep(std::move(task), &result));
    }
    CHECK(world_.run_until([&] { return result.has_value(); }));
    return std::move(*result);
  }
  // The code of a failure; ok without one.
  template <class T>
  ErrorCode code(Task<Outcome<T>> task) {
    const auto outcome = run(std::move(task));
    return outcome ? ErrorCode::ok : outcome.error().code();
  }

 private:
  template <class T>
  static Task<> keep(Task<T> task, std::optional<T>* to) {
    to->emplace(co_await std::move(task));
  }
  static Task<bool> closing(Call call, Transport* transport) {
    co_await transport->close(call);
    co_return true;
  }

  io::sim::World world_{1};
  io::sim::Node& host_;
  io::sim::Node& home_;
  io::Machine host_machine_;
  io::Machine home_machine_;
  Desk desk_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<IndexClient> client_;
};

std::string resolved_json(std::string_view key, std::string_view kind, std::string_view manifest,
                          std::string_view etag) {
  return fmt::format(
      R"({{"key":"{}","kind":"{}","manifest_cid":"{}","source":"db","etag":"{}","freshness_s":7,"providers_hint":"/providers/x"}})",
      key, kind, manifest, etag);
}
std::string named_json(std::string_view name, std::string_view manifest, unsigned sequence) {
  return fmt::format(R"({{"name":"{}"{},"sequence":{},"changed_at":"{}"}})", name,
                     manifest.empty() ? std::string() : fmt::format(R"(,"manifest":"{}")", manifest),
                     sequence, time_text);
}
std::string change_json(unsigned sequence, std::string_view manifest, std::string_view more = "") {
  return fmt::format(R"({{"sequence":{},"manifest":{},"at":"{}","key":"{}"{}}})", sequence,
                     manifest.empty() ? "null" : fmt::format("\"{}\"", manifest), time_text, key_text, more);
}
std::string history_json(std::string_view name, std::string_view changes, std::string_view more = "") {
  return fmt::format(R"({{"name":"{}","changes":[{}]{}}})", name, changes, more);
}
std::string listed_json(std::string_view name) {
  return fmt::format(R"({{"name":"{}","manifest":"{}","changed_at":"{}"}})", name, site_text, time_text);
}

// `text` with `to` in place of `from`.
std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  CHECK(at != text.npos);
  return text.replace(at, from.size(), to);
}

TEST_F(IndexClientTest, a_name_or_an_address_is_resolved) {
  say("GET /resolve/name:docs/guide",
      {200, resolved_json("name:docs/guide", "name", site_text, "3"), "\"3\""});
  say("GET /resolve/name:docs/guide?fresh=true",
      {200, resolved_json("name:docs/guide", "name", other_text, "4"), "\"4\""});
  say("GET /resolve/" + site_text, {200, resolved_json(site_text, "cid", site_text, "x"), "\"x\""});
  for (const std::string key : {"docs/guide", "name:docs/guide"}) {
    const auto found = run(client().resolve(call(), key));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(*found,
              (Resolved{Resolved::Kind::name, "name:docs/guide", site, "db", "3", 7, "/providers/x"}));
  }
  EXPECT_EQ(run(client().resolve(call(), "docs/guide", true))->manifest, other);
  const auto address = run(client().resolve(call(), site_text));
  ASSERT_TRUE(address);
  EXPECT_EQ(address->kind, Resolved::Kind::address);
  EXPECT_EQ(code(client().resolve(call(), "nowhere")), ErrorCode::not_found);
}

TEST_F(IndexClientTest, an_answer_about_something_else_is_not_believed) {
  const std::string asked = "GET /resolve/name:docs";
  const std::string good = resolved_json("name:docs", "name", site_text, "3");
  say(asked, {200, good, "\"3\""});
  EXPECT_EQ(code(client().resolve(call(), "docs")), ErrorCode::ok);
  for (const Said& wrong : {Said{200, with(good, "name:docs", "name:doc"), "\"3\""},
                            Said{200, with(good, "\"name\"", "\"cid\""), "\"3\""}, Said{200, good, "\"4\""},
                            Said{200, good, ""}, Said{200, good, "W/\"3\""}}) {
    say(asked, wrong);
    EXPECT_EQ(code(client().resolve(call(), "docs")), ErrorCode::integrity) << wrong.text << wrong.etag;
  }
  say("GET /resolve/" + site_text, {200, resolved_json(site_text, "cid", other_text, "x"), "\"x\""});
  EXPECT_EQ(code(client().resolve(call(), site_text)), ErrorCode::integrity);
  for (const std::string& odd : {with(good, site_text, "b3:12"), with(good, "\"name\"", "\"nome\""),
                                 with(good, ":7", ":-7"), good.substr(1), std::string("[]"), good + "x"}) {
    say(asked, {200, odd, "\"3\""});
    EXPECT_EQ(code(client().resolve(call(), "docs")), ErrorCode::upstream) << odd;
  }
}

TEST_F(IndexClientTest, what_is_no_name_is_not_sent) {
  for (const std::string bad :
       {"", "/docs", "docs/", "a//b", "..", "A", "a b", "a?b", "name:", "name:A", "b3:12"})
    EXPECT_EQ(code(client().resolve(call(), bad)), ErrorCode::invalid) << bad;
  for (const std::string bad : {"", "/docs", "a/../b", "a?history", "b3:12", "name:docs"}) {
    EXPECT_EQ(code(client().name(call(), bad)), ErrorCode::invalid) << bad;
    EXPECT_EQ(code(client().set_name(call(), {.name = bad, .manifest = site})), ErrorCode::invalid) << bad;
    EXPECT_EQ(code(client().remove_name(call(), bad)), ErrorCode::invalid) << bad;
    EXPECT_EQ(code(client().history(call(), bad, {}, 10)), ErrorCode::invalid) << bad;
  }
  EXPECT_EQ(code(client().names(call(), "a&limit=1", "", 10)), ErrorCode::invalid);
  EXPECT_EQ(code(client().names(call(), "", "a/", 10)), ErrorCode::invalid);
  EXPECT_EQ(code(client().providers(call(), site, {.region = "eu&limit=9"})), ErrorCode::invalid);
  EXPECT_TRUE(desk().seen.empty());
}

TEST_F(IndexClientTest, a_name_is_set_under_the_conditions_that_were_given) {
  say("PUT /names/docs", {201, named_json("docs", site_text, 1), "\"1\""});
  auto set = run(client().set_name(call(), {.name = "docs", .manifest = site, .only_new = true}));
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_TRUE(set->fresh);
  EXPECT_EQ(set->now.sequence, 1u);
  EXPECT_EQ(set->now.manifest, site);
  EXPECT_EQ(desk().body, R"({"manifest":")" + site_text + "\"}");
  say("PUT /names/docs", {200, named_json("docs", other_text, 8), "\"8\""});
  set = run(
      client().set_name(call(), {.name = "docs", .manifest = other, .note = "a \"note\"", .if_match = 7}));
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_FALSE(set->fresh);
  EXPECT_EQ(desk().body, R"({"manifest":")" + other_text + R"(","note":"a \"note\""})");
  EXPECT_EQ(desk().seen, (std::vector<std::string>{"PUT /names/docs If-None-Match: *",
                                                   "PUT /names/docs If-Match: \"7\""}));
  // The answer has to be about this name and this object, and its tag has to be the sequence.
  say("PUT /names/docs", {200, named_json("docs", site_text, 8), "\"8\""});
  EXPECT_EQ(code(client().set_name(call(), {.name = "docs", .manifest = other})), ErrorCode::integrity);
  say("PUT /names/docs", {200, named_json("dogs", other_text, 8), "\"8\""});
  EXPECT_EQ(code(client().set_name(call(), {.name = "docs", .manifest = other})), ErrorCode::integrity);
  say("PUT /names/docs", {200, named_json("docs", other_text, 8), "\"9\""});
  EXPECT_EQ(code(client().set_name(call(), {.name = "docs", .manifest = other})), ErrorCode::integrity);
}

TEST_F(IndexClientTest, a_refused_change_that_was_made_after_all_counts_as_made) {
  const std::string newest = "GET /names/docs?history&limit=1";
  say("PUT /names/docs", said_error(412, "precondition_failed"));
  say("DELETE /names/docs", said_error(412, "precondition_failed"));
  const SetName wish{.name = "docs", .manifest = site, .if_match = 7};
  EXPECT_EQ(code(client().set_name(call(), wish)), ErrorCode::precondition_failed);
  say(newest, {200, history_json("docs", change_json(8, site_text), R"(,"next":8)")});
  const auto made = run(client().set_name(call(), wish));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->now.sequence, 8u);
  EXPECT_EQ(code(client().remove_name(call(), "docs", 7)), ErrorCode::precondition_failed);
  // Another change, or more than one, is somebody else's.
  for (const std::string& others : {change_json(8, other_text), change_json(9, site_text),
                                    change_json(7, site_text), change_json(8, "")}) {
    say(newest, {200, history_json("docs", others)});
    EXPECT_EQ(code(client().set_name(call(), wish)), ErrorCode::precondition_failed) << others;
  }
  say(newest, {200, history_json("docs", change_json(8, ""))});
  EXPECT_EQ(code(client().remove_name(call(), "docs", 7)), ErrorCode::ok);
  // Without a sequence nobody can tell whose change it is.
  say(newest, {200, history_json("docs", change_json(1, site_text))});
  EXPECT_EQ(code(client().set_name(call(), {.name = "docs", .manifest = site, .only_new = true})),
            ErrorCode::precondition_failed);
}

TEST_F(IndexClientTest, a_removed_name_leads_nowhere) {
  say("DELETE /names/docs", {200, named_json("docs", "", 9), "\"9\""});
  const auto gone = run(client().remove_name(call(), "docs", 8));
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(gone->sequence, 9u);
  EXPECT_FALSE(gone->manifest);
  EXPECT_EQ(desk().seen, (std::vector<std::string>{"DELETE /names/docs If-Match: \"8\""}));
  say("DELETE /names/docs", {200, named_json("docs", site_text, 9), "\"9\""});
  EXPECT_EQ(code(client().remove_name(call(), "docs")), ErrorCode::integrity);
  say("GET /names/docs", {200, named_json("docs", "", 9), "\"9\""});
  EXPECT_EQ(code(client().name(call(), "docs")), ErrorCode::integrity);
  say("GET /names/docs", {200, named_json("docs", site_text, 9), "\"9\""});
  EXPECT_EQ(run(client().name(call(), "docs"))->manifest, site);
}

TEST_F(IndexClientTest, a_history_goes_on_page_after_page_and_ends) {
  say("GET /names/docs?history&limit=1000",
      {200, history_json("docs",
                         change_json(5, "", R"(,"by":"root/0123")") + "," +
                             change_json(4, site_text, R"(,"note":"n")"),
                         R"(,"next":4)")});
  say("GET /names/docs?history&after=4&limit=1000", {200, history_json("docs", change_json(3, other_text))});
  std::vector<PastChange> seen;
  const auto take = [&](const PastChange& one) {
    seen.push_back(one);
    return true;
  };
  const auto whole = run(client().each_change(call(), "docs", 5000, take));
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(*whole);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].manifest, std::nullopt);
  EXPECT_EQ(seen[0].by, "root/0123");
  EXPECT_EQ(seen[1].note, "n");
  EXPECT_EQ(format_hex(seen[1].key), key_text);
  EXPECT_EQ(seen[2].manifest, other);

  seen.clear();
  say("GET /names/docs?history&limit=2", desk().answers["GET /names/docs?history&limit=1000"].front());
  EXPECT_EQ(run(client().each_change(call(), "docs", 2, take)), false) << "the cap";
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(IndexClientTest, a_history_that_does_not_go_on_is_refused) {
  const std::string asked = "GET /names/docs?history&after=4&limit=10";
  const auto page = [&](Said said) {
    say(asked, std::move(said));
    return code(client().history(call(), "docs", 4, 10));
  };
  const std::string good = history_json("docs", change_json(3, site_text) + "," + change_json(1, site_text));
  EXPECT_EQ(page({200, good}), ErrorCode::ok);
  EXPECT_EQ(page({200, history_json("docs", "")}), ErrorCode::ok);
  EXPECT_EQ(page({200, with(good, "docs", "dogs")}), ErrorCode::integrity);
  EXPECT_EQ(page({200, history_json("docs", change_json(4, site_text))}), ErrorCode::integrity);
  EXPECT_EQ(page({200, history_json("docs", change_json(1, site_text) + "," + change_json(3, site_text))}),
            ErrorCode::upstream);
  EXPECT_EQ(page({200, history_json("docs", change_json(3, site_text), R"(,"next":4)")}),
            ErrorCode::upstream);
  EXPECT_EQ(page({200, history_json("docs", "", R"(,"next":3)")}), ErrorCode::upstream);
  EXPECT_EQ(page({200, with(good, key_text, "12")}), ErrorCode::upstream);
  EXPECT_EQ(page({200, with(good, "\"sequence\":3", "\"sequence\":0")}), ErrorCode::upstream);
  EXPECT_EQ(page({200, with(good, "\"manifest\":\"" + site_text + "\",", "")}), ErrorCode::upstream);
}

TEST_F(IndexClientTest, a_list_of_names_goes_on_page_after_page_and_ends) {
  say("GET /names?limit=1000&prefix=do", {200, fmt::format(R"({{"names":[{},{}],"next":"docs/b"}})",
                                                           listed_json("docs"), listed_json("docs/b"))});
  // Of a stretch in which all names were removed there is nothing to tell.
  say("GET /names?limit=1000&prefix=do&after=docs/b", {200, R"({"names":[],"next":"dog"})"});
  say("GET /names?limit=1000&prefix=do&after=dog",
      {200, fmt::format(R"({{"names":[{}]}})", listed_json("dot"))});
  std::vector<std::string> seen;
  const auto take = [&](const ListedName& one) {
    EXPECT_EQ(one.manifest, site);
    seen.push_back(one.name);
    return seen.size() != 7;
  };
  EXPECT_EQ(run(client().each_name(call(), "do", 1'000'000, take)), true);
  EXPECT_EQ(seen, (std::vector<std::string>{"docs", "docs/b", "dot"}));
  EXPECT_EQ(run(client().each_name(call(), "do", 1'000'000, [](const ListedName&) { return false; })), false);
}

TEST_F(IndexClientTest, a_list_that_does_not_go_on_is_refused) {
  const auto page = [&](const std::string& names, const std::string& more = "") {
    say("GET /names?limit=10&prefix=do&after=docs", {200, fmt::format(R"({{"names":[{}]{}}})", names, more)});
    return code(client().names(call(), "do", "docs", 10));
  };
  EXPECT_EQ(page(listed_json("docs/a") + "," + listed_json("dot")), ErrorCode::ok);
  EXPECT_EQ(page(listed_json("dot") + "," + listed_json("docs/a")), ErrorCode::upstream);
  EXPECT_EQ(page(listed_json("docs")), ErrorCode::integrity);
  EXPECT_EQ(page(listed_json("eggs")), ErrorCode::integrity);
  EXPECT_EQ(page(listed_json("Dot")), ErrorCode::upstream);
  EXPECT_EQ(page("", R"(,"next":"docs")"), ErrorCode::integrity);
  EXPECT_EQ(page(listed_json("dot"), R"(,"next":"docs/a")"), ErrorCode::upstream);
  EXPECT_EQ(page(listed_json("dot"), R"(,"next":"../x")"), ErrorCode::upstream);
}

TEST_F(IndexClientTest, providers_come_with_what_is_known_of_them) {
  say("GET /providers/" + site_text + "?limit=5&region=eu&min_freshness=90",
      {200, fmt::format(
                R"({{"cid":"{}","providers":[)"
                R"({{"id":"n1","addr":"10.0.0.1:7410","region":"eu","class":0,"score":0.5,"last_seen_s":3}},)"
                R"({{"id":"n2","addr":"10.0.0.2:7410","class":"far","score":0,"last_seen_s":4}}],)"
                R"("hedge":{{"alpha_ms":1.5,"beta_ms":null,"winner":null}}}})",
                site_text)});
  auto wrong =
      run(client().providers(call(), site, {.region = "eu", .min_freshness = Duration::seconds(90)}));
  ASSERT_FALSE(wrong) << "a time is a number, or is not there";
  EXPECT_EQ(wrong.error().code(), ErrorCode::upstream);
  auto& said = desk().answers.begin()->second.front();
  said.text = with(said.text, "\"beta_ms\":null", "\"beta_ms\":20");
  const auto found =
      run(client().providers(call(), site, {.region = "eu", .min_freshness = Duration::seconds(90)}));
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->providers.size(), 2u);
  EXPECT_EQ(found->providers[0], (Provider{"n1", "10.0.0.1:7410", "eu", "0", 0.5, 3}));
  EXPECT_EQ(found->providers[1], (Provider{"n2", "10.0.0.2:7410", "", "far", 0, 4}));
  EXPECT_EQ(found->alpha_ms, 1.5);
  EXPECT_EQ(found->winner, "");
  said.text = with(said.text, site_text, other_text);
  EXPECT_EQ(code(client().providers(call(), site, {.region = "eu", .min_freshness = Duration::seconds(90)})),
            ErrorCode::integrity);
}

TEST_F(IndexClientTest, a_manifest_is_what_its_address_says) {
  const std::string target = "/manifests/" + format_address(crypto::hash_object(as_bytes("manifest")));
  const Address address = crypto::hash_object(as_bytes("manifest"));
  say("PUT " + target, {201, "{}"});
  EXPECT_EQ(run(client().put_manifest(call(), address, as_bytes("manifest"))), true);
  EXPECT_EQ(desk().body, "manifest");
  say("PUT " + target, {200, "{}"});
  EXPECT_EQ(run(client().put_manifest(call(), address, as_bytes("manifest"))), false);
  say("GET " + target, {200, "manifest"});
  EXPECT_EQ(run(client().manifest(call(), address)), "manifest");
  say("GET " + target, {200, "manifesto"});
  EXPECT_EQ(code(client().manifest(call(), address)), ErrorCode::integrity);
}

TEST_F(IndexClientTest, a_refusal_says_who_was_asked_and_in_whose_words) {
  say("PUT /names/docs", said_error(403, "forbidden"));
  const auto refused = run(client().set_name(call(), {.name = "docs", .manifest = site}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::forbidden);
  EXPECT_EQ(refused.error().message, "because");
  EXPECT_EQ(refused.error().corr_id, "corr-1234");
  EXPECT_EQ(refused.error().asked, "PUT /names/docs of host:80");
}

TEST_F(IndexClientTest, the_longest_name_that_is_known_is_taken_and_the_rest_is_a_path) {
  for (const std::string name : {"docs", "docs/guide"})
    say("GET /resolve/name:" + name, {200, resolved_json("name:" + name, "name", site_text, "1"), "\"1\""});
  const auto resolve = [&](std::string text) {
    const auto found = run(resolve_name(call(), &client(), std::move(text)));
    return found ? found->name + "|" + found->path : std::string(name_of(found.error().code()));
  };
  EXPECT_EQ(resolve("docs"), "docs|");
  EXPECT_EQ(resolve("docs/"), "docs|");
  EXPECT_EQ(resolve("docs/guide/a.txt"), "docs/guide|a.txt");
  EXPECT_EQ(resolve("docs/guide"), "docs/guide|");
  EXPECT_EQ(resolve("name:docs/b/c"), "docs|b/c");
  desk().seen.clear();
  // What cannot be a name is not asked for.
  EXPECT_EQ(resolve("docs/READ ME/ü"), "docs|READ ME/ü");
  EXPECT_EQ(desk().seen, (std::vector<std::string>{"GET /resolve/name:docs"}));
  EXPECT_EQ(resolve("dog/a"), "not_found");
  EXPECT_EQ(resolve("Docs"), "invalid");
  EXPECT_EQ(resolve("/docs"), "invalid");
  EXPECT_EQ(resolve(""), "invalid");
  // A name that could not be looked up is not passed over: a shorter one would be another object.
  say("GET /resolve/name:docs/guide/a", said_error(504, "timeout"));
  EXPECT_EQ(resolve("docs/guide/a"), "timeout");
}

}  // namespace
}  // namespace cairn::client
