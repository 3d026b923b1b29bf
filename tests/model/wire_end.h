// For models: a connection whose two ends are in one process.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "io/stream.h"

namespace cairn::model {

// One end of a wire. A write is seen by the other end at once.
class WireEnd final : public io::Stream {
 public:
  explicit WireEnd(Shard& shard, std::string_view protocol = {})
      : Stream(shard), shard_(shard), identity_(shard.new_identity()), protocol_(protocol) {
    writable.signal();
  }
  ~WireEnd() override { close(false); }
  static void join(WireEnd& a, WireEnd& b) noexcept {
    a.other_ = &b;
    b.other_ = &a;
  }

  io::Io try_read(MutableByteView into) noexcept override {
    touch();
    if (arrived_.empty()) {
      if (ended_) return {io::IoStatus::eof};
      readable.clear();
      return {io::IoStatus::would_block};
    }
    const std::size_t count = std::min(into.size(), arrived_.size());
    std::copy_n(as_bytes(std::string_view(arrived_)).data(), count, into.data());
    arrived_.erase(0, count);
    return {io::IoStatus::done, count};
  }
  io::Io try_discard(std::size_t) noexcept override { return {io::IoStatus::failed}; }
  io::Io try_writev(std::span<const iovec> parts) noexcept override {
    touch();
    if (other_ == nullptr) return {io::IoStatus::failed};
    std::size_t count = 0;
    for (const iovec& each : parts) {
      other_->arrived_.append(static_cast<const char*>(each.iov_base), each.iov_len);
      count += each.iov_len;
    }
    other_->touch();
    other_->readable.signal();
    return {io::IoStatus::done, count};
  }
  io::Io try_send_file(io::File&, std::uint64_t, std::size_t) noexcept override {
    return {io::IoStatus::failed};
  }
  std::uint64_t unacknowledged() const noexcept override { return 0; }
  void cork(bool) noexcept override {}
  void shutdown_send() noexcept override { end_other(); }
  void close(bool) noexcept override {
    end_other();
    if (other_ != nullptr) other_->other_ = nullptr;
    other_ = nullptr;
  }
  io::PeerAddress peer() const noexcept override { return {}; }
  std::string_view protocol() const noexcept override { return protocol_; }

 private:
  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  void end_other() noexcept {
    touch();
    if (other_ == nullptr || other_->ended_) return;
    other_->touch();
    other_->ended_ = true;
    other_->tell_peer_gone();
    other_->readable.signal();
  }

  Shard& shard_;
  std::uint64_t identity_;
  std::string_view protocol_;
  WireEnd* other_ = nullptr;
  std::string arrived_;
  bool ended_ = false;
};

}  // namespace cairn::model
