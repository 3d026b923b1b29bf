#include "runtime/condition.h"

namespace cairn {

Condition::Condition() = default;
Condition::~Condition() = default;
void Condition::notify_all() noexcept { changed_.notify_all(); }
void Condition::wait(std::unique_lock<std::mutex>& lock) { changed_.wait(lock); }

}  // namespace cairn
