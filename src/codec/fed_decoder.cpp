#include "codec/fed_decoder.h"

#include <algorithm>

namespace cairn::codec {

Result<RawDecoder::Progress> FedDecoder::step(ByteView in, MutableByteView out) {
  Progress total;
  if (due_ && !out.empty()) {
    out[total.produced++] = *due_;
    due_.reset();
  }
  while (!due_ && !ended_ && !failed_) {
    const MutableByteView room = out.subspan(total.produced);
    const ByteView rest = in.subspan(total.consumed);
    const ByteView offered = more_ ? ByteView{} : rest.first(std::min(rest.size(), portion(room.size())));
    if (!more_ && offered.empty()) break;
    if (more_ && room.empty() && total.produced > 0) break;  // the next step finds out whether a byte is due
    std::byte spare{};
    const bool probing = room.empty();
    const Fed fed = feed(offered, probing ? MutableByteView(&spare, 1) : room);
    more_ = fed.progress.produced == (probing ? 1 : room.size());
    ended_ = fed.state == State::ended;
    failed_ = fed.state == State::failed;
    problem_ = fed.problem;
    total.consumed += fed.progress.consumed;
    if (!probing)
      total.produced += fed.progress.produced;
    else if (fed.progress.produced > 0)
      due_ = spare;
  }
  const bool trailing = ended_ && !due_ && total.consumed < in.size();
  if ((failed_ || trailing) && !due_ && total.produced == 0) {
    failed_ = true;
    return fail(ErrorCode::malformed, trailing ? "compressed stream: bytes after its end" : problem_,
                Side::client);
  }
  return total;
}

}  // namespace cairn::codec
