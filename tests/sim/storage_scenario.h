// StorageScenario: worlds of one storage node, its objects, and clients that put, read, pin and delete them.
//   [SS-1] What was acknowledged is there after any crash, byte for byte, until a delete of it was asked for;
//         what was deleted and acknowledged stays away until it is put again.
//   [SS-2] No answer has other bytes than the object's. A put without an answer is there whole, or not.
//   [SS-3] A part of an upload that was acknowledged is not missing; a pinned object is not deleted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "register.h"
#include "scenario.h"
#include "services/storage/service.h"
#include "store/log_kv.h"

namespace cairn::simulator {

struct Sample {
  std::string_view bytes;
  Address address;
  std::string name;  // the address as text
};
// The objects of all seeds; those from `large_samples` on are larger than most bodies may be.
std::span<const Sample> samples();
inline constexpr std::size_t small_samples = 24, large_samples = 5;

// What is known of a storage service, whoever passes its requests on.
class Holdings {
 public:
  explicit Holdings(std::uint64_t seed);
  virtual ~Holdings() = default;

  // By number of the sample.
  enum Presence : Register::Value { absent, present };
  enum Pin : Register::Value { loose, pinned };
  Register& presence(std::size_t sample) noexcept { return presence_[sample]; }
  Register& pin(std::size_t sample) noexcept { return pins_[sample]; }
  // What was still on its way has arrived, or never will.
  void settle_all(Instant now);
  const storage::Options& options() const noexcept { return options_; }
  std::unique_ptr<serve::Service> make_storage() { return storage::make_service(options_, kv_, keys()); }
  static const storage::Keys& keys();
  static config::SnapshotPtr load_storage(const Limits& limits, std::uint64_t version);
  // Bytes at rest may have changed: what a restart finds of them is not judged.
  virtual bool may_have_forgotten(const Server& server) const noexcept = 0;
  // Who passes requests on may answer some ranges with the whole object.
  virtual bool ranges_may_be_whole() const noexcept { return false; }

 private:
  storage::Options options_;
  store::LogKvMaker kv_;
  std::vector<Register> presence_, pins_;
};

class StorageScenario final : public Scenario, public Holdings {
 public:
  StorageScenario(std::uint64_t seed, Options options, io::sim::Probes& probes);

  std::unique_ptr<serve::Service> make_service(Server& server) override;
  const config::ServerKeys& server_keys(unsigned) const noexcept override;
  config::SnapshotPtr load(unsigned, const Limits& limits, std::uint64_t version) const override;
  void add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) override;
  void settle() override;
  bool may_fail_to_start() const noexcept override { return phase() == Phase::faults; }
  Duration overrun() const noexcept override { return Duration::millis(100); }

  bool may_have_forgotten(const Server& server) const noexcept override {
    return plan().disk_lies && server.lives() > 1;
  }
};

}  // namespace cairn::simulator
