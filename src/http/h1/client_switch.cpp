// How the client carries another protocol: what is said and what arrives, each as it is.
#include "http/h1/client_exchange.h"

namespace cairn::http {

Task<Result<Buffer>> ClientExchange::next_said(Call call) {
  if (raw_ && !raw_.empty()) co_return std::exchange(raw_, Buffer());
  co_return co_await receive(call, Slab::medium);
}

Task<Result<>> ClientExchange::say(Call call, ByteView bytes) {
  while (!bytes.empty()) {
    // Awaited even when ready: now and then it gives the turn to others.
    CO_TRY_VOID(blame_upstream(co_await stream().writable.wait(call)));
    const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const io::Io sent = stream().try_writev({&part, 1});
    if (sent.status == io::IoStatus::would_block) continue;
    if (sent.status != io::IoStatus::done) co_return lost("the conversation was cut off");
    bytes = bytes.subspan(sent.count);
  }
  co_return Result<>{};
}

void ClientExchange::end_saying() noexcept { stream().shutdown_send(); }

}  // namespace cairn::http
