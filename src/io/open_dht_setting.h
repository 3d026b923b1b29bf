// For tests: nodes of OpenDHT on loopback, which know the first of them.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "io/dht_setting.h"
#include "io/open_dht.h"

namespace cairn::io {

// One node and a shard of its own.
class OpenPlace : public RealPlace {
 public:
  explicit OpenPlace(DhtOptions options, OpenDhtOptions limits = {}) {
    auto opened = run(OpenDhtMaker(limits).open(call(), machine, std::move(options)));
    CHECK(opened.has_value());
    node = *opened;
    dht = node->make_port(machine);
  }
  ~OpenPlace() { (void)close(); }

  ErrorCode close() { return code_of(run(node->close(call(), machine))); }
  DhtStatus status() {
    const auto told = run(dht->status(call()));
    CHECK(told.has_value());
    return *told;
  }
  Endpoint endpoint() { return {"127.0.0.1", status().port}; }
  // Until it knows a good node.
  bool becomes_ready() {
    const Instant limit = machine.shard.precise_now() + Duration::seconds(30);
    while (!status().ready)
      if (machine.shard.precise_now() > limit) return false;
    return true;
  }
  Result<> put(DhtKey key, DhtValue value) { return run(dht->put(call(), key, std::move(value))); }
  struct Got {
    Result<DhtOutcome> outcome;
    std::vector<DhtValue> values;
  };
  Got get(DhtKey key) {
    Got got;
    got.outcome = run(dht->get(call(), key, [&](const DhtValue& value) {
      got.values.push_back(value);
      return false;
    }));
    return got;
  }

  std::shared_ptr<DhtNode> node;
  std::unique_ptr<Dht> dht;
};

// `count` nodes. All but the first are ready: that one looks at those who came to it only after a second.
class OpenNet {
 public:
  explicit OpenNet(std::size_t count) {
    while (places_.size() < count) add();
    for (std::size_t i = 1; i < count; ++i) CHECK(places_[i]->becomes_ready());
  }
  OpenPlace& add(OpenDhtOptions limits = {}) {
    std::vector<Endpoint> known;
    if (!places_.empty()) known.push_back(places_.front()->endpoint());
    places_.push_back(std::make_unique<OpenPlace>(options_of(DhtMode::private_network, known), limits));
    return *places_.back();
  }
  void remove(std::size_t index) { places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(index)); }
  OpenPlace& operator[](std::size_t index) { return *places_[index]; }
  std::size_t size() const noexcept { return places_.size(); }

 private:
  std::vector<std::unique_ptr<OpenPlace>> places_;
};

// Two ways into a network of three nodes.
struct OpenReal {
  OpenPlace& place(unsigned i) { return net[1 + i]; }
  DhtNode& node_of(unsigned i) { return *net[1 + i].node; }
  OpenNet net{3};
};

}  // namespace cairn::io
