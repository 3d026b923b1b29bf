#include "io/closer.h"

#include <unistd.h>

#include <new>
#include <utility>

namespace cairn::io {

class Closer::Job final : public PoolJob {
 public:
  Job(Pool& pool, std::shared_ptr<Closer> closer) noexcept : PoolJob(pool), closer_(std::move(closer)) {}
  ~Job() override { CHECK(descriptors.empty()); }
  void work() noexcept override { close_all(descriptors); }
  void completed() noexcept override {
    const std::shared_ptr<Closer> closer = std::move(closer_);
    delete this;
    closer->closing_ = false;
    closer->retry();
  }
  List<Descriptor> descriptors;

 private:
  std::shared_ptr<Closer> closer_;
};

Closer::~Closer() { close_all(waiting_); }

SharedDescriptor Closer::hold(int number, int direct) {
  return {new Descriptor(number, direct),
          [closer = shared_from_this()](Descriptor* last) noexcept { closer->close(last); }};
}

void Closer::close(Descriptor* descriptor) noexcept {
  waiting_.push_back(*descriptor);
  ++count_;
  submit();
}

// One job at a time; it takes all waiting descriptors.
void Closer::submit() noexcept {
  if (closing_) return;
  auto* job = pool_ == nullptr ? nullptr : new (std::nothrow) Job(*pool_, shared_from_this());
  if (job == nullptr) return end();
  job->descriptors.take_all(waiting_);
  const auto taken = pool_->try_submit(Lane::upkeep, *job);
  if (taken) {
    closing_ = true;
    count_ = 0;
    return;
  }
  waiting_.take_all(job->descriptors);
  delete job;
  if (taken.error().code != ErrorCode::busy) end();
}

void Closer::end() noexcept {
  pool_ = nullptr;
  close_all(waiting_);
  count_ = 0;
}

void Closer::close_all(List<Descriptor>& descriptors) noexcept {
  while (!descriptors.empty()) {
    const std::unique_ptr<Descriptor> one(&descriptors.pop_front());
    ::close(one->number_);
    if (one->direct_ >= 0) ::close(one->direct_);
  }
}

void close_here(int descriptor) noexcept {
  CHECK(current_shard() == nullptr);
  ::close(descriptor);
}

}  // namespace cairn::io
