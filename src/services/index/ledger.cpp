#include "services/index/ledger.h"

#include "services/index/home.h"
#include "services/index/port.h"

namespace cairn::index {

Ledger::Ledger(LedgerOptions options, store::KvMaker& kv)
    : options_(std::move(options)), kv_maker_(kv), changes_(options_.changes_max) {}
Ledger::~Ledger() { home_.reset(); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the machine outlives the ledger
Task<Result<>> Ledger::open(Call call, io::Machine& machine, observe::Logger log) {
  home_ = std::make_unique<Home>(*this, machine, log);
  CO_TRY_VOID(co_await home_->open(call));
  status_.open = true;
  co_return Result<>{};
}

Task<Result<>> Ledger::close(Call call) {
  status_.open = false;
  co_return co_await home_->close(call);
}

std::unique_ptr<store::Kv> Ledger::make_kv(io::Machine& machine) {
  return std::make_unique<MapPort>(engine_->make_port(machine), status_.index_damaged);
}

std::unique_ptr<Port> Ledger::make_port(io::Machine& machine) {
  return std::make_unique<Port>(*this, machine);
}

}  // namespace cairn::index
