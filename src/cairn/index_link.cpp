#include "cairn/index_link.h"

#include <fmt/format.h>

#include "cairn/server_search.h"
#include "cairn/session.h"
#include "client/storage_client.h"

namespace cairn::cli {

using client::Failure;
using client::Outcome;

IndexLink::IndexLink(io::Machine& machine, const Invocation& invocation, std::string data,
                     client::Transport* server)
    : machine_(machine),
      invocation_(invocation),
      data_(std::move(data)),
      client_(server != nullptr ? std::make_unique<client::IndexClient>(*server) : nullptr) {}

IndexLink::~IndexLink() = default;

Task<Outcome<client::IndexClient*>> IndexLink::connect(Call call) {
  if (client_ == nullptr) CO_TRY_VOID(co_await search(call));
  co_return client_.get();
}

Task<Outcome<>> IndexLink::search(Call call) {
  const Search search = where_the_index_is(invocation_, data_);
  if (search.wrong)
    co_return fail(Failure(ErrorCode::invalid,
                           fmt::format("`{}` is not the URL of an index", printable(*search.wrong))));
  Failure why(ErrorCode::connection_lost, "no index of this data directory is listening");
  std::string asked;
  for (const Candidate& candidate : search.candidates) {
    asked += (asked.empty() ? "" : ", ") + candidate.named;
    CO_TRY(client::TransportOptions options, options_for(invocation_, data_, candidate));
    auto transport = std::make_unique<client::Transport>(machine_, std::move(options));
    const auto version = co_await client::StorageClient(*transport).version(call.within(probe_patience));
    if (version && has_names(version->service)) {
      own_ = std::move(transport);
      client_ = std::make_unique<client::IndexClient>(*own_);
      co_return Outcome<>{};
    }
    why = version
              ? Failure(ErrorCode::connection_lost, fmt::format("there is {}", printable(version->service)))
              : version.error();
    co_await transport->close(call.unbounded());
    if (call.stopped()) co_return fail(Failure(ErrorCode::cancelled, "stopped"));
  }
  Failure failure(ErrorCode::connection_lost, fmt::format("no index answers ({})", why.message));
  failure.asked = std::move(asked);
  failure.hint = hint_of_certificate(why);
  if (failure.hint.empty())
    failure.hint = fmt::format("start it: cairn index --data {}; or name one: --index http://HOST:PORT",
                               search.own ? printable(data_) : "DIR");
  co_return fail(std::move(failure));
}

Task<> IndexLink::close(Call call) {
  if (own_ != nullptr) co_await own_->close(call);
}

}  // namespace cairn::cli
