// Task<T>: a lazy coroutine. It starts when awaited, resumes its awaiter by symmetric transfer, and its
// frame comes from the shard's pool. Await it at once or give it to a Scope; nothing else exists.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/frame_pool.h"
#include "runtime/shard.h"

namespace cairn {

template <class T = void>
class Task;

// Frames of a shard's coroutines come from and return to its pool; outside a shard, from the heap.
struct PooledFrame {
  static void* operator new(std::size_t size) {
    if (Shard* shard = current_shard()) [[likely]]
      return shard->frames().take(size);
    return FramePool().take(size);
  }
  static void operator delete(void* frame, std::size_t size) noexcept {
    if (Shard* shard = current_shard()) [[likely]]
      shard->frames().give(frame, size);
    else
      std::free(frame);
  }
};

namespace detail {

struct PromiseBase : PooledFrame {
  std::coroutine_handle<> continuation;
  std::exception_ptr exception;

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) const noexcept {
      return self.promise().continuation;
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;

  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    if (exception) [[unlikely]]
      std::rethrow_exception(exception);
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() {
    if (exception) [[unlikely]]
      std::rethrow_exception(exception);
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> handle;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) const noexcept {
        handle.promise().continuation = awaiting;
        return handle;
      }
      [[nodiscard]] T await_resume() const { return handle.promise().take(); }
    };
    return Awaiter{handle_};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

}  // namespace cairn
