#include "serve/reloads.h"

namespace cairn::serve {

Task<bool> next_reload(Call call, Mpsc<ReloadAsked>* asked, const TicketKeys* tickets) {
  for (;;) {
    const auto next = co_await asked->recv(call.within(io::TlsTicketKeys::look));
    for (const auto& each : *tickets) each->drop_old(current_shard()->now());
    if (next) co_return true;
    if (next.error().code != ErrorCode::timeout || call.expired()) co_return false;
  }
}

}  // namespace cairn::serve
