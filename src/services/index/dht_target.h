// DhtTarget: the DHT as a whole, as one of the targets that a lookup asks for the providers of an address.
//   [DT-1] The answer has only records that their nodes signed, of the address that was asked for. Others are
//         dropped and counted: values of a DHT come from anybody.
//   [DT-2] "Not here" only when the nodes nearest to the key were asked and have answered. The end of a
//         search may lag far behind its values, so the answer waits for more no longer than `gather` after
//         the first fresh record.
#pragma once

#include <atomic>
#include <memory>

#include "io/dht.h"
#include "runtime/shard.h"
#include "services/index/provider_set.h"
#include "services/index/reach.h"

namespace cairn::index {

// The tag of the keys under which provider records are.
inline constexpr std::string_view provider_key_tag = "cairn-provider-record-v1";

// Values that were not taken, by why. Publishes no other memory.
struct DhtRefused {
  std::atomic<std::uint64_t> forged{0};   // no record, or not its node's signature
  std::atomic<std::uint64_t> foreign{0};  // of another address, or leads where this network does not reach
};

class DhtTarget final : public Target {
 public:
  static constexpr Duration gather = Duration::millis(15);

  // All outlive it. `network`: the number of this network, as in its keys.
  DhtTarget(Shard& shard, io::Dht& dht, std::uint32_t network, const Reach& reach, DhtRefused& refused)
      : Target({.name = "dht", .region = {}, .latency_class = 1}),
        shard_(shard),
        dht_(dht),
        network_(network),
        reach_(reach),
        refused_(refused) {}

  bool can_answer(const Question& question) const noexcept override { return !asks_for_name(question); }
  Task<Result<Answer>> ask(Call call, Question question) override;

 private:
  class Search;

  Shard& shard_;
  io::Dht& dht_;
  std::uint32_t network_;
  Reach reach_;
  DhtRefused& refused_;
};

}  // namespace cairn::index
