// StorageCaller: a client of storage.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "caller.h"
#include "storage_scenario.h"

namespace cairn::simulator {

class StorageCaller final : public Caller {
 public:
  static constexpr std::uint32_t usual_visits[] = {40, 24, 6, 8, 8, 14, 3, 3, 1, 2, 3};

  StorageCaller(Scenario& scenario, Holdings& holdings, io::Machine machine, unsigned number,
                std::uint64_t seed)
      : Caller(scenario, machine, number, seed), storage_(holdings) {}

 private:
  static constexpr unsigned steps = 3;
  // An upload of this client's, and what it was told of it.
  struct Upload {
    std::string id;
    std::size_t sample;
    std::set<std::uint64_t> parts;  // acknowledged
    bool may_be_gone = false;       // a commit or a delete was sent
  };

  Task<> visit(Call call) override;
  unsigned converge_steps() const noexcept override { return steps; }
  Task<std::string> converge_with(Call call, Server& server, unsigned step) override;

  // --- storage_caller.cpp
  Task<> get(Call call, Server& server, std::size_t sample);
  Task<> get_all(Call call, Server& server);
  Task<> put(Call call, Server& server);
  Task<> put_wrong(Call call, Server& server);
  Task<> post(Call call, Server& server);
  Task<> remove(Call call, Server& server);
  Task<> pin(Call call, Server& server);
  Task<> list(Call call, Server& server);
  Task<> prove(Call call, Server& server);
  Task<> tend(Call call, Server& server);
  Task<> abandon(Call call, Server& server);
  // --- storage_uploads.cpp
  Task<> upload(Call call, Server& server);
  Task<> begin_upload(Call call, Server& server);
  Task<> send_part(Call call, Server& server, Upload& upload);
  Task<> look_at_upload(Call call, Server& server, Upload& upload);
  Task<> commit_upload(Call call, Server& server, Upload& upload);
  Task<> abort_upload(Call call, Server& server, Upload& upload);
  // True: the answer was that there is no such upload, and it was judged.
  bool is_gone(std::uint32_t id, Upload& upload, const Answer& answer);

  std::size_t pick_sample(bool large = true);
  // The sample was found there, or not, by a request that began at `from`.
  void found(std::uint32_t id, std::size_t sample, Holdings::Presence what, Instant from);
  // The end of a write, as far as the answer tells.
  void settle(Register& value, Register::Ticket ticket, std::uint32_t id, const Result<Answer>& answer);
  http::ClientRequest with_body(http::ClientRequest request, std::string_view bytes);

  Holdings& storage_;
  std::vector<Upload> uploads_;
  bool has_read_all_ = false;
};

}  // namespace cairn::simulator
