// expect-tidy: cppcoreguidelines-avoid-reference-coroutine-parameters
// A reference to the caller's temporary dangles after the first suspension.
#include <string>

#include "runtime/task.h"
#include "runtime/wait.h"

#ifdef RIGHT
cairn::Task<std::size_t> measure(cairn::Call call, std::string text) {
#else
cairn::Task<std::size_t> measure(cairn::Call call, const std::string& text) {
#endif
  co_await cairn::yield(call);
  co_return text.size();
}
