#include "http/h2/outflow.h"

#include <algorithm>
#include <cstring>

namespace cairn::http::h2 {

void Outflow::start(Response& response, bool body, Conversing* conversing) noexcept {
  clear();
  if (!body) return;
  switch (response.kind) {
    case Response::Body::file:
      file_ = response.file.get();
      file_at_ = response.offset;
      left_of_file_ = response.count;
      return;
    case Response::Body::stream:
      source_ = response.source.get();
      conversing_ = conversing;
      sized_ = response.sized;
      left_ = response.count;
      return;
    default:
      bytes_ = as_bytes(response.whole());
  }
}

void Outflow::clear() noexcept {
  source_ = nullptr;
  conversing_ = nullptr;
  piece_ = io::Piece();
  bytes_ = {};
  file_ = nullptr;
  file_at_ = left_of_file_ = left_ = 0;
  cold_.reset();
  sized_ = ended_ = is_cold_ = failed_ = false;
}

void Outflow::accept(io::Piece piece) noexcept {
  const std::uint64_t size = piece.size();
  if (sized_ && (size == 0 || size > left_)) failed_ = true;  // OF-1
  ended_ = size == 0;
  if (failed_ || ended_) return;
  if (sized_) left_ -= size;
  piece_ = std::move(piece);
  if (piece_.is_file()) {
    file_ = piece_.file;
    file_at_ = piece_.offset;
    left_of_file_ = piece_.count;
  } else {
    bytes_ = piece_.bytes;
  }
}

Outflow::State Outflow::look() {
  if (!has_bytes() && !is_last() && !failed_) {
    piece_ = io::Piece();
    std::optional<io::Piece> next;
    if (conversing_ == nullptr) next = source_->try_next();
    if (!next) return State::waits;
    accept(std::move(*next));
  }
  if (failed_) return State::failed;
  if (is_cold_ && bytes_.empty()) return State::waits;
  return has_bytes() ? State::ready : State::ended;
}

std::size_t Outflow::copy(MutableByteView into) noexcept {
  if (!bytes_.empty()) {
    const std::size_t size = std::min(into.size(), bytes_.size());
    std::memcpy(into.data(), bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    if (bytes_.empty()) {
      cold_.reset();
      piece_.buffer.reset();
    }
    return size;
  }
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left_of_file_));
  const Result<std::size_t> got = file_->try_read_into(file_at_, into.first(size));
  is_cold_ = !got && got.error().code == ErrorCode::busy;
  failed_ = !is_cold_ && (!got || *got == 0);  // the file was longer when its size was asked
  if (is_cold_ || failed_) return 0;
  file_at_ += *got;
  left_of_file_ -= *got;
  return *got;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the shard's slab outlives it
Task<bool> Outflow::fetch(Call call, Slab& slab) {
  if (!is_cold_) {
    auto next = co_await (conversing_ != nullptr ? conversing_->next() : source_->next(call));
    if (!next) co_return false;
    accept(std::move(*next));
    co_return !failed_;
  }
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_of_file_, Slab::large));
  auto read = co_await file_->read(call, file_at_, size, slab.take(size));
  if (!read || read->empty()) co_return false;
  is_cold_ = false;
  cold_ = std::move(*read);
  bytes_ = cold_.bytes();
  file_at_ += bytes_.size();
  left_of_file_ -= bytes_.size();
  co_return true;
}

}  // namespace cairn::http::h2
