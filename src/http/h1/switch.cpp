// How a connection switches to another protocol, and carries it.
#include "http/h1/connection.h"
#include "http/h1/framing.h"

namespace cairn::http {

std::string_view Connection::wanted_protocol() const noexcept {
  const RequestParser& parsed = exchange_->parser;
  const bool fits = parsed.head.method == Method::get && parsed.head.body == BodyKind::none &&
                    parsed.framing.minor == 1 && parsed.framing.keep_alive;
  return fits ? find_upgrade(parsed.head.fields) : std::string_view{};
}

Task<bool> Connection::converse(Call call) {
  chunks_ = std::exchange(input_, Buffer());  // what came behind the head belongs to the conversation
  exchange_->wire_body.open();
  const ServerTimeouts& timeouts = server_.options_.timeouts;
  Conversing conversing(server_.machine_.shard, call, *server_.idle_, *exchange_,
                        {.piece = timeouts.source, .goodbye = timeouts.linger});
  conversing_ = &conversing;
  bool complete = false;
  try {
    complete = co_await send_answer(call);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the connection boundary; the listener must end first
  }
  conversing_ = nullptr;
  // A listener that failed may have made the conversation say so: what it said is still to arrive.
  try {
    co_await conversing.end();
  } catch (const std::exception& problem) {  // the connection boundary
    server_.gate_.broke(problem.what());
  } catch (...) {
    server_.gate_.broke("not a std::exception");
  }
  co_return complete;
}

Task<Result<Buffer>> Connection::next_raw(Call call) {
  if (chunks_ && !chunks_.empty()) co_return std::exchange(chunks_, Buffer());
  for (;;) {
    CO_TRY_VOID(co_await stream_->readable.wait(call));
    Buffer slice = server_.machine_.slab.take(Slab::medium);
    const io::Io got = stream_->try_read(slice.room());
    if (got.status == io::IoStatus::done) {
      slice.fill(got.count);
      co_return slice;
    }
    if (got.status == io::IoStatus::failed)
      co_return fail(ErrorCode::connection_lost, "the conversation was cut off", Side::client);
    if (got.status == io::IoStatus::eof) {
      exchange_->wire_body.finish();
      co_return Buffer();
    }
  }
}

}  // namespace cairn::http
