// HeadStream: heads as events of a stream. A reader that missed heads is told so, and the newest head is then
// enough to go on from. A reader that has seen a version that no longer exists is told of that rollback.
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
  // `last`: the last version that the reader has seen; without it the stream begins with the present head.
  // `lagged` is called with the number of heads that were not sent. Port and text outlive the stream.
  HeadStream(Port& port, EventText& text, std::function<void(std::uint64_t)> lagged,
             std::optional<std::uint64_t> last);
  // Reports to `lagged` what a reader missed that was cut off because it never read.
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
  std::optional<std::uint64_t> rolled_back_;           // a seen version that is gone, to be told
  std::optional<Broadcast<Head>::Receiver> receiver_;  // once the stream has caught up from the ledger
  std::uint64_t next_;
};

}  // namespace cairn::registry
