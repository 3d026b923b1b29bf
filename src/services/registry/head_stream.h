// HeadStream: heads as events of a stream. Whoever missed some is told so, and the newest is then enough to
// go on from; whoever has seen a version that is not there any more is told that too.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "http/sse.h"
#include "services/registry/port.h"

namespace cairn::registry {

// The newest head as an event.
struct EventText {
  std::uint64_t version = 0;
  std::string text;
};

class HeadStream final : public http::EventFeed {
 public:
  // `last`: the version that was seen last; whoever comes for the first time is told where things stand.
  // `lagged` hears how many heads were not sent. Port and text outlive it.
  HeadStream(Port& port, EventText& text, std::function<void(std::uint64_t)> lagged,
             std::optional<std::uint64_t> last);
  // One that never reads is cut without having been told what it missed.
  ~HeadStream() override;

  // Cancel: clean.
  Task<Result<More>> next(Call call, std::string& out) override;

 private:
  void tell(std::string& out, const Head& head);
  void tell_lag(std::string& out, std::uint64_t missed);
  void tell_rollback(std::string& out, std::uint64_t last);
  std::vector<Head> catch_up(std::uint64_t head);
  void write(codec::JsonWriter& json, const Head& head);

  Port& port_;
  EventText& text_;
  std::function<void(std::uint64_t)> lagged_;
  std::optional<std::uint64_t> rolled_back_;           // what was seen and is not there any more, to be told
  std::optional<Broadcast<Head>::Receiver> receiver_;  // once it has caught up from the ledger
  std::uint64_t next_;
};

}  // namespace cairn::registry
