// HeadStream: heads as events of a stream. A reader that missed heads is told so, and the newest head is then
// enough to go on from. A reader that has seen a version that no longer exists is told of that rollback.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "http/sse.h"
#include "http/websocket/socket.h"
#include "services/registry/port.h"

namespace cairn::registry {

// Appends `{"event":…,"id":…,"data":…}` as one message of a WebSocket: what an event of the stream is there.
// `data` is JSON.
void append_message(std::string& out, std::string_view event, std::string_view id, std::string_view data);

// The newest head as an event, in the form in which a stream tells its events.
struct EventText {
  void (*append)(std::string& out, std::string_view event, std::string_view id, std::string_view data);
  std::uint64_t version = 0;
  std::string text = {};
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

// The same as messages of a WebSocket. What the client says there is ignored.
class HeadTalk final : public http::websocket::Talk {
 public:
  explicit HeadTalk(std::unique_ptr<HeadStream> heads) noexcept : heads_(std::move(heads)) {}
  // Cancel: clean.
  Task<Result<More>> next(Call call, std::string& out) override;

 private:
  std::unique_ptr<HeadStream> heads_;
};

}  // namespace cairn::registry
