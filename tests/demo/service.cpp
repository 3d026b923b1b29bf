#include "demo/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "demo/declarations.h"
#include "http/conditional.h"
#include "http/range.h"
#include "http/sse.h"
#include "runtime/wait.h"
#include "serve/answer.h"
#include "serve/open.h"

namespace cairn::demo {
namespace {

std::string make_kilobyte() {
  std::string text(1024, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

// Parts of one kilobyte, each after a wait.
class Ticks : public io::BodySource {
 public:
  Ticks(Slab& slab, std::uint64_t parts) : slab_(slab), left_(parts) {}
  Task<Result<io::Piece>> next(Call call) override {
    if (left_ == 0) co_return Buffer();
    --left_;
    CO_TRY_VOID(co_await sleep_for(call, Duration::millis(5)));
    Buffer part = slab_.take(1024);
    std::fill_n(part.room().begin(), 1024, std::byte{'.'});
    part.fill(1024);
    co_return part;
  }

 private:
  Slab& slab_;
  std::uint64_t left_;
};

class EchoSource : public io::BodySource {
 public:
  explicit EchoSource(std::vector<Buffer> parts) : parts_(std::move(parts)) {}
  Task<Result<io::Piece>> next(Call) override {
    if (at_ == parts_.size()) co_return Buffer();
    co_return std::move(parts_[at_++]);
  }

 private:
  std::vector<Buffer> parts_;
  std::size_t at_ = 0;
};

using Version = Watch<std::uint64_t>;

// The version as an event, and again whenever it has changed.
class VersionFeed : public http::EventFeed {
 public:
  explicit VersionFeed(Version& version) : seen_(version.subscribe()) {}
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the stream keeps it
  Task<Result<More>> next(Call call, std::string& out) override {
    if (!std::exchange(first_, false)) CO_TRY_VOID(co_await seen_.changed(call));
    const std::string text = fmt::format("{}", seen_.get());
    http::append_event(out, "version", text, fmt::format("{{\"version\":{}}}", text));
    co_return More::yes;
  }

 private:
  Version::Receiver seen_;
  bool first_ = true;
};

// Always has another event.
class FloodFeed : public http::EventFeed {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the stream keeps it
  Task<Result<More>> next(Call, std::string& out) override {
    http::append_event(out, "", fmt::format("{}", ++number_), std::string(8000, '.'));
    co_return More::yes;
  }

 private:
  std::uint64_t number_ = 0;
};

// A body that waits for its worker.
struct StagedBody {
  std::vector<Buffer> parts;
};

// An open file kept for a second, as long as nobody else needs its place.
struct OpenFile {
  std::shared_ptr<io::File> file;
  std::uint64_t size = 0;
  std::string etag;
  Instant until{};
};

class DemoShard : public serve::ServiceShard {
 public:
  DemoShard(serve::ShardContext context, std::string files)
      : machine_(context.machine),
        settings_(context.settings),
        files_(std::move(files)),
        kilobyte_(make_kilobyte()),
        version_(context.machine.shard, 0) {}

  static std::span<const serve::RouteSpec> routes() {
    using http::Method;
    using serve::at_once, serve::open, serve::queued, serve::staged, serve::Takes;
    using Self = DemoShard;
    static constexpr serve::RouteSpec table[] = {
        {.pattern = "/mem/{name:Segment}",
         .methods = Method::get | Method::head,
         .summary = "A kilobyte of memory",
         .handlers = at_once<&Self::answer_memory>()},
        {.pattern = "/file/{name:Name}",
         .methods = Method::get | Method::head,
         .summary = "A file",
         .handlers = at_once<&Self::try_answer_file, &Self::serve_file>()},
        {.pattern = "/echo",
         .methods = Method::post | Method::put,
         .summary = "Give back what came",
         .handlers = queued<&Self::serve_echo>(),
         .takes = Takes::body},
        {.pattern = "/job/{ms:Int}",
         .methods = Method::post | Method::get,
         .summary = "Work for so long",
         .handlers = queued<&Self::serve_job>(),
         .takes = Takes::body},
        {.pattern = "/stream/{parts:Int}",
         .methods = Method::get,
         .summary = "So many parts",
         .handlers = queued<&Self::serve_stream>()},
        {.pattern = "/staged",
         .methods = Method::post | Method::put,
         .summary = "Take a body, then answer",
         .handlers = staged<&Self::take_body, &Self::serve_staged>(),
         .takes = Takes::body},
        {.pattern = "/guarded",
         .methods = Method::get | Method::post,
         .summary = "Work with a capability",
         .handlers = queued<&Self::serve_guarded>(),
         .takes = Takes::body,
         .op = "demo.write"},
        {.pattern = "/events/{beat:Int}",
         .methods = Method::get,
         .summary = "A stream of versions",
         .handlers = open<&Self::answer_events>()},
        {.pattern = "/flood",
         .methods = Method::get,
         .summary = "A stream without a pause",
         .handlers = open<&Self::answer_flood>()},
        {.pattern = "/poll/{seen:Int}/{wait:Int}",
         .methods = Method::get,
         .summary = "Wait for a newer version",
         .handlers = open<&Self::try_poll, &Self::wait_poll>()},
        {.pattern = "/bump",
         .methods = Method::post,
         .summary = "Make a newer version",
         .handlers = at_once<&Self::bump>()},
    };
    return table;
  }

 private:
  void answer_memory(serve::Request& request) {
    request.response.answer_view("application/octet-stream", kilobyte_);
  }
  void answer_events(serve::Request& request) {
    http::answer_events(request.response, std::make_unique<VersionFeed>(version_),
                        millis(request.route.at[0].number));
  }
  void answer_flood(serve::Request& request) {
    http::answer_events(request.response, std::make_unique<FloodFeed>());
  }
  bool try_poll(serve::Request& request) {
    if (version_.value() <= request.route.at[0].number) return false;
    answer_version(request);
    return true;
  }
  void bump(serve::Request& request) {
    version_.set(version_.value() + 1);
    answer_version(request);
  }

  bool try_answer_file(serve::Request& request) {
    auto found = open_.find(request.route.at[0].text);
    if (found == open_.end() || found->second.until <= machine_.shard.now()) return false;
    answer_file(request, found->second);
    return true;
  }

  // A newer version, or the present one when the wait is over.
  Task<Result<>> wait_poll(Call call, serve::Request& request) {
    const std::uint64_t known = request.route.at[0].number;
    const Instant end = machine_.shard.now() + millis(request.route.at[1].number);
    Version::Receiver seen = version_.subscribe();
    while (seen.get() <= known) {
      const Duration left = end - machine_.shard.now();
      CO_TRY(const serve::OpenWait waited, co_await serve::wait_open(call, seen.changed_arm(), left));
      if (waited != serve::OpenWait::happened) break;
    }
    answer_version(request);
    co_return Result<>{};
  }
  Task<Result<>> take_body(Call call, serve::Request& request, StagedBody& body) {
    return read_body(call, request, body.parts);
  }

  static constexpr std::size_t open_files_max = 256;

  static Duration millis(std::uint64_t number) noexcept {
    return Duration::millis(static_cast<std::int64_t>(std::min<std::uint64_t>(number, 3'600'000)));
  }
  void answer_version(serve::Request& request) const {
    request.response.text = fmt::format("{{\"version\":{}}}\n", version_.value());
    request.response.answer_text("application/json");
  }

  Task<Result<>> serve_file(Call call, serve::Request& request) {
    if (files_.empty()) co_return fail(ErrorCode::not_found, "no such file", Side::client);
    const std::string name(request.route.at[0].text);
    CO_TRY(std::unique_ptr<io::File> opened,
           co_await machine_.disk.open(call, files_ + "/" + name, io::OpenMode::read));
    OpenFile entry;
    CO_TRY(entry.size, opened->size());
    entry.file = std::move(opened);
    entry.etag = fmt::format("\"{}-{}\"", name, entry.size);
    entry.until = machine_.shard.now() + Duration::seconds(10);
    if (open_.size() >= open_files_max) open_.clear();
    answer_file(request, open_[name] = std::move(entry));
    co_return Result<>{};
  }

  static void answer_file(serve::Request& request, const OpenFile& entry) {
    http::Response& response = request.response;
    const auto& fields = request.fields();
    response.add_field("ETag", entry.etag);
    response.add_field("Accept-Ranges", "bytes");
    const http::Verdict verdict = http::evaluate(fields, request.head().method,
                                                 {.etag = entry.etag, .last_modified = {}, .exists = true});
    if (verdict.outcome == http::Precondition::not_modified) {
      response.status = 304;
      return;
    }
    if (verdict.outcome == http::Precondition::failed)
      return serve::answer_error(request,
                                 {ErrorCode::precondition_failed, "the file has another tag", Side::client});
    std::array<char, http::content_range_size_max> room;
    if (verdict.range_applies) {
      const http::RangeSet ranges = http::parse_range(fields.get(http::FieldName::range), entry.size);
      if (ranges.kind == http::RangeSet::Kind::unsatisfiable) {
        response.add_field("Content-Range", http::format_unsatisfied_range(entry.size, room));
        return serve::answer_error(
            request, {ErrorCode::range_not_satisfiable, "the range is outside of the file", Side::client});
      }
      if (ranges.kind == http::RangeSet::Kind::ranges && ranges.count == 1) {
        response.status = 206;
        response.add_field("Content-Range", http::format_content_range(ranges.at[0], entry.size, room));
        response.answer_file("application/octet-stream", entry.file, ranges.at[0].first, ranges.at[0].size());
        return;
      }
    }
    response.answer_file("application/octet-stream", entry.file, 0, entry.size);
  }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller keeps them
  Task<Result<>> read_body(Call call, serve::Request& request, std::vector<Buffer>& parts) {
    serve::Body body(request, machine_.slab, settings_.decode);
    for (;;) {
      CO_TRY(Buffer part, co_await body.next(call));
      if (part.empty()) co_return Result<>{};
      parts.push_back(std::move(part));
    }
  }

  Task<Result<>> serve_echo(Call call, serve::Request& request) {
    std::vector<Buffer> parts;
    CO_TRY_VOID(co_await read_body(call, request, parts));
    request.response.answer_stream("application/octet-stream",
                                   std::make_unique<EchoSource>(std::move(parts)));
    co_return Result<>{};
  }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
  Task<Result<>> serve_staged(Call, serve::Request& request, StagedBody& body) {
    request.response.answer_stream("application/octet-stream",
                                   std::make_unique<EchoSource>(std::move(body.parts)));
    co_return Result<>{};
  }

  Task<Result<>> serve_guarded(Call, serve::Request& request) {
    request.response.answer_view("text/plain", "allowed\n");
    co_return Result<>{};
  }

  Task<Result<>> serve_job(Call call, serve::Request& request) {
    const auto ms = static_cast<std::int64_t>(std::min<std::uint64_t>(request.route.at[0].number, 60'000));
    CO_TRY_VOID(co_await sleep_for(call, Duration::millis(ms)));
    ++jobs_done_;
    request.response.text = fmt::format("{{\"slept_ms\":{},\"jobs_done\":{}}}\n", ms, jobs_done_);
    request.response.answer_text("application/json");
    co_return Result<>{};
  }

  Task<Result<>> serve_stream(Call, serve::Request& request) {
    const std::uint64_t parts = std::min<std::uint64_t>(request.route.at[0].number, 100'000);
    request.response.answer_stream("text/plain", std::make_unique<Ticks>(machine_.slab, parts));
    co_return Result<>{};
  }

  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  io::Machine& machine_;
  const serve::Settings& settings_;
  std::string files_;
  std::string kilobyte_;
  std::unordered_map<std::string, OpenFile, NameHash, std::equal_to<>> open_;
  std::uint64_t jobs_done_ = 0;
  Version version_;  // of this shard
};

class DemoService : public serve::Service {
 public:
  explicit DemoService(std::string files) : files_(std::move(files)) {}
  const ServiceDeclaration& declaration() const override { return demo::declaration; }
  std::span<const serve::RouteSpec> routes() const override { return DemoShard::routes(); }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<DemoShard>(context, files_);
  }

 private:
  std::string files_;
};

}  // namespace

std::unique_ptr<serve::Service> make_service(std::string files) {
  return std::make_unique<DemoService>(std::move(files));
}

}  // namespace cairn::demo
