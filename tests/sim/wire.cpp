#include "wire.h"

#include <array>

#include "http/h1/chunked.h"

namespace cairn::simulator {
namespace {

std::unexpected<Error> lost(const char* context) {
  return fail(ErrorCode::connection_lost, context, Side::upstream);
}

}  // namespace

Task<Result<>> Wire::open(Call call, io::Endpoint endpoint) {
  CO_TRY(stream_, co_await machine_.network.connect(call, std::move(endpoint)));
  co_return Result<>{};
}

Task<Result<>> Wire::send(Call call, std::string_view text) {
  while (!text.empty()) {
    const iovec part{const_cast<char*>(text.data()), text.size()};
    const io::Io sent = stream_->try_writev({&part, 1});
    if (sent.status == io::IoStatus::would_block)
      CO_TRY_VOID(co_await stream_->writable.wait(call));
    else if (sent.status != io::IoStatus::done)
      co_return lost("send");
    else
      text.remove_prefix(sent.count);
  }
  co_return Result<>{};
}

Task<Result<bool>> Wire::fill(Call call) {
  for (;;) {
    CO_TRY_VOID(co_await stream_->readable.wait(call));
    std::array<std::byte, 16'384> room;
    const io::Io got = stream_->try_read(room);
    if (got.status == io::IoStatus::would_block) continue;
    if (got.status == io::IoStatus::eof) co_return false;
    if (got.status != io::IoStatus::done) co_return lost("receive");
    input_ += as_text({room.data(), got.count});
    co_return true;
  }
}

Task<Result<Answer>> Wire::receive_head(Call call, http::Method method) {
  parser_.reset(method);
  for (;;) {
    const http::Parsed parsed = parser_.parse(input_);
    if (parsed.progress == http::Progress::failed) co_return fail(parsed.error);
    if (parsed.progress == http::Progress::complete) {
      Answer answer = read_head(parser_.head);
      input_.erase(0, parsed.size);
      co_return answer;
    }
    CO_TRY(const bool more, co_await fill(call));
    if (!more) co_return lost(input_.empty() ? "no answer" : "half a head");
  }
}

Task<Result<Answer>> Wire::receive(Call call, http::Method method, bool stop_at_interim) {
  CO_TRY(Answer answer, co_await receive_head(call, method));
  while (answer.status < 200) {
    ++interim_;
    if (stop_at_interim) co_return answer;
    CO_TRY(answer, co_await receive_head(call, method));
  }
  const http::BodyKind kind = parser_.head.body;
  std::uint64_t left = kind == http::BodyKind::length ? parser_.head.content_length : 0;
  http::ChunkedDecoder chunks;
  while (kind != http::BodyKind::none) {
    if (kind == http::BodyKind::chunked && !input_.empty()) {
      const auto step = chunks.next(input_);
      answer.body += step.data;
      input_.erase(0, step.consumed);
      if (step.kind == http::ChunkedDecoder::Kind::failed) co_return fail(step.error);
      if (step.kind == http::ChunkedDecoder::Kind::done) break;
      if (step.kind == http::ChunkedDecoder::Kind::data) continue;
    } else if (kind != http::BodyKind::chunked) {
      const std::size_t here =
          kind == http::BodyKind::length ? std::min<std::uint64_t>(left, input_.size()) : input_.size();
      answer.body.append(input_, 0, here);
      input_.erase(0, here);
      left -= kind == http::BodyKind::length ? here : 0;
      if (kind == http::BodyKind::length && left == 0) break;
    }
    CO_TRY(const bool more, co_await fill(call));
    if (more) continue;
    if (kind == http::BodyKind::until_close) break;
    co_return lost("half a body");
  }
  co_return answer;
}

Task<Result<>> Wire::wait_end(Call call) {
  for (;;) {
    CO_TRY(const bool more, co_await fill(call));
    if (!more) co_return Result<>{};
  }
}

}  // namespace cairn::simulator
