// What the reloader of a process waits for. It is the task that always waits, so it also looks after what has
// to end at its time although nobody asks for it.
#pragma once

#include <memory>
#include <vector>

#include "io/tls_tickets.h"
#include "runtime/mpsc.h"
#include "runtime/task.h"

namespace cairn::serve {

struct ReloadAsked {};
using TicketKeys = std::vector<std::shared_ptr<io::TlsTicketKeys>>;

// True when a reload was asked for, false when the wait is over for good. Meanwhile the keys of session
// tickets are wiped when their time is over. The handshakes that use them do that too, but none may come.
// Cancel: clean.
Task<bool> next_reload(Call call, Mpsc<ReloadAsked>* asked, const TicketKeys* tickets);

}  // namespace cairn::serve
