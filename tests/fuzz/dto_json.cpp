// The documents that an index reads: where a name is to lead, what nodes announce, and what another node
// answers. Anything may be in them; what is accepted is within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "services/index/documents.h"
#include "services/index/node_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  codec::JsonReader reader;
  const auto wish = index::read_wish(reader, text);
  CHECK(wish || wish.error().code == ErrorCode::malformed);
  const WallTime now{1'767'225'600'000};
  const auto announced = index::read_announcements(reader, text, now);
  CHECK(announced || announced.error().code == ErrorCode::malformed);
  if (announced) {
    CHECK(announced->records.size() + announced->forged + announced->expired <= index::records_most);
    for (const index::SignedProvider& one : announced->records) CHECK(one.record.expiry > now);
  }
  for (const index::Question& question : {index::Question(std::string("docs")), index::Question(Address{})}) {
    const auto answer = index::read_records(question, text);
    if (!answer) {
      CHECK(answer.error().code == ErrorCode::upstream);
      continue;
    }
    CHECK(answer->providers.size() + answer->changes.size() <= index::providers_max);
    CHECK(index::asks_for_name(question) ? answer->providers.empty() : answer->changes.empty());
  }
  return 0;
}
