// A chunked body in fuzz-chosen pieces decodes to what the slow grammar reads, or is refused as it is.
#include <string>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/h1/chunked.h"

namespace cairn {
namespace {

void check(std::string_view stream, std::uint32_t seed, const grammar::Message& expected) {
  using Kind = http::ChunkedDecoder::Kind;
  http::ChunkedDecoder decoder;
  fuzz::Splits splits(seed);
  std::string body;
  std::size_t consumed = 0;
  grammar::Verdict verdict = grammar::Verdict::incomplete;
  while (consumed < stream.size() && verdict == grammar::Verdict::incomplete) {
    const std::size_t size = splits.next(stream.size() - consumed);
    const fuzz::Exact piece(stream.substr(consumed, size));
    for (std::string_view input = piece.view();;) {
      const auto step = decoder.next(input);
      fuzz::require(step.consumed <= input.size(), "consumed more than there is");
      fuzz::require(step.kind != Kind::need_more || step.consumed == input.size(), "need_more leaves input");
      body += step.data;
      consumed += step.consumed;
      input.remove_prefix(step.consumed);
      if (step.kind == Kind::done) verdict = grammar::Verdict::accepted;
      if (step.kind == Kind::failed) verdict = grammar::Verdict::rejected;
      if (step.kind != Kind::data) break;
    }
  }
  fuzz::require(verdict == expected.verdict, "verdict");
  fuzz::require(body == expected.body, "body");
  if (verdict == grammar::Verdict::accepted) fuzz::require(consumed == expected.end, "end");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::string stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Repetition reaches the bounds on extensions and trailers from short inputs.
  if ((data[1] & 3) == 3)
    for (int i = 0; i < 6 && stream.size() < 5000; ++i) stream += stream;
  const auto expected = cairn::grammar::Reader(stream, 0, {}).read_chunked();
  cairn::check(stream, 0, expected);
  cairn::check(stream, 1, expected);
  cairn::check(stream, 2u + data[0], expected);
  return 0;
}
