#include "serve/reloads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/driven_shard.h"

namespace cairn::serve {
namespace {

struct Waiting {
  Waiting() { driven.scope.spawn("reloader", wait(this, driven.call())); }
  ~Waiting() {
    driven.scope.cancel(StopReason::draining);
    driven.run();
  }
  static Task<> wait(Waiting* self, Call call) {
    while (co_await next_reload(call, &self->asked, &self->tickets)) ++self->reloads;
    self->ended = true;
  }
  // Whether the memory of the keys holds that secret.
  bool holds(const crypto::SecretBytes<32>& secret) const {
    const std::string_view all(reinterpret_cast<const char*>(tickets.front().get()),
                               sizeof(io::TlsTicketKeys));
    return all.find(as_text(secret.reveal())) != all.npos;
  }

  DrivenShard driven;
  Mpsc<ReloadAsked> asked{driven.shard, 4};
  TicketKeys tickets{std::make_shared<io::TlsTicketKeys>()};
  int reloads = 0;
  bool ended = false;
};

TEST(Reloads, each_that_is_asked_for_is_told_and_the_end_too) {
  Waiting waiting;
  waiting.driven.run_for(Duration::seconds(7200));
  EXPECT_EQ(waiting.reloads, 0);
  (void)waiting.asked.try_send({});
  waiting.driven.run_for(Duration::seconds(1));
  (void)waiting.asked.try_send({});
  waiting.driven.run_for(Duration::seconds(1));
  EXPECT_EQ(waiting.reloads, 2);
  EXPECT_FALSE(waiting.ended);
  waiting.driven.scope.cancel(StopReason::draining);
  waiting.driven.settle();
  EXPECT_TRUE(waiting.ended);
}

TEST(Reloads, ticket_keys_whose_time_is_over_are_wiped_without_a_handshake) {  // TK-1
  Waiting waiting;
  const auto key = waiting.tickets.front()->sealing(waiting.driven.shard.now());
  ASSERT_TRUE(key.has_value());
  EXPECT_TRUE(waiting.holds(key->cipher) && waiting.holds(key->mac));
  waiting.driven.run_for(io::TlsTicketKeys::period * 2 - Duration::seconds(1));
  EXPECT_TRUE(waiting.holds(key->cipher) && waiting.holds(key->mac));
  waiting.driven.run_for(Duration::seconds(1) + io::TlsTicketKeys::look);
  EXPECT_FALSE(waiting.holds(key->cipher) || waiting.holds(key->mac));
}

}  // namespace
}  // namespace cairn::serve
