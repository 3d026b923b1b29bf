#include "store/log.h"

#include "store/log_recovery.h"
#include "store/log_writer.h"

namespace cairn::store {

// NOLINTBEGIN(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<std::unique_ptr<Log>>> Log::open(Call call, io::Machine& machine, LogOptions options,
                                             LogPoint from, Replay& replay, LogReport& report) {
  // NOLINTEND(cppcoreguidelines-avoid-reference-coroutine-parameters)
  report = {};
  // By the committers' lane, also for reads: the file that is appended to is opened on the way.
  io::Machine own = machine.for_commits();
  LogRecovery recovery(own, options, from, replay, report);
  CO_TRY(LogState state, co_await recovery.run(call));
  auto writer = std::make_unique<LogWriter>(machine, options, std::move(state));
  if (report.index != IndexFit::good)
    writer->shut();
  else
    CO_TRY_VOID(co_await writer->start(call));
  co_return std::unique_ptr<Log>(std::move(writer));
}

}  // namespace cairn::store
