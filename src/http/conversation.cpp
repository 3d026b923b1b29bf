#include "http/conversation.h"

namespace cairn::http {

void Response::switch_to(std::unique_ptr<Conversation> with) noexcept {
  kind = Body::stream;
  content_type = {};
  sized = false;
  switches = true;
  conversation = with.get();
  source = std::move(with);
}

// The listener may wait for as long as it likes: its end is that of the sending, whose waits are bounded.
Conversing::Conversing(Shard& shard, Call call, CancelSource& draining, Exchange& exchange, Times times)
    : shard_(shard),
      call_(call),
      draining_(draining),
      conversation_(*exchange.response.conversation),
      times_(times),
      listener_(shard, call) {
  listener_.spawn("conversation", conversation_.listen(listener_.call(), exchange.body));
}

Task<Result<io::Piece>> Conversing::next() {
  for (;;) {
    if (!told_ && draining_.reason() == StopReason::draining) {
      told_ = true;
      goodbye_until_ = shard_.now() + times_.goodbye;
      conversation_.drain();
    }
    const Call bounded = told_ ? call_.by(goodbye_until_) : call_.under(draining_).within(times_.piece);
    auto piece = co_await conversation_.next(bounded);
    if (piece || told_ || draining_.reason() != StopReason::draining) co_return piece;
  }
}

Task<> Conversing::end() {
  listener_.cancel(StopReason::superseded);
  co_await listener_.join_all(call_);
}

}  // namespace cairn::http
