// Condition: a condition variable for pool threads that wait on a Guarded value. Never waited on by a shard.
#pragma once

#include <condition_variable>
#include <mutex>

namespace cairn {

class Condition {
 public:
  Condition();
  ~Condition();
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void notify_all() noexcept;

 private:
  template <class T, auto rank>
  friend class Guarded;
  void wait(std::unique_lock<std::mutex>& lock);

  std::condition_variable changed_;
};

}  // namespace cairn
