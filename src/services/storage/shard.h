// StorageShard: storage on one shard: parses, answers, and hands the rest to the store.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "io/ram_disk.h"
#include "serve/service.h"
#include "serve/shares.h"
#include "services/storage/metrics.h"
#include "services/storage/object_source.h"
#include "services/storage/service.h"
#include "store/draft.h"
#include "store/store_set.h"

namespace cairn::storage {

// The state that the shards share.
struct Shared {
  Options options;
  Keys keys;
  store::KvMaker& kv;
  Metrics metrics;
  store::ByteBudget ingest{ingest_bytes};
  // The bytes of a client's address are counted in the same slot as its requests.
  static_assert(serve::Shares::slots == store::ByteBudget::slots &&
                serve::Shares::Asker::none == store::Taker::none);
  std::unique_ptr<store::ChangeFeed> changed;  // none: nobody is told
  AnnounceStatus announced;
  std::unique_ptr<io::RamDisk> ram;          // instead of a disk, when nothing may be written to one
  std::shared_ptr<store::GroupCache> cache;  // a job of the pool may hold it, too
  std::unique_ptr<store::StoreSet> stores;
  // [SV-1] A data directory's log and index live on one shard, its home: the directories are dealt out to the
  // shards in turn.
  unsigned shards = 0;
  unsigned home_of(std::size_t directory) const noexcept { return static_cast<unsigned>(directory % shards); }
  std::atomic<std::size_t> unopened{0};              // stores that are not open yet
  std::atomic<const std::string*> trouble{nullptr};  // the directory whose store could not be opened
  // The same objects for /metrics, which any shard may answer while shard 0 is still making them. A reader
  // that loads a pointer (acquire) sees the whole object (release), which lives until the service goes.
  std::atomic<const store::GroupCache*> made_cache{nullptr};
  std::atomic<store::StoreSet*> made_stores{nullptr};
};

// The announcer and what it is given of this process. Of shard 0.
struct Announcing {
  Announcing(io::Machine& machine, serve::Peer& peer, const std::string& token_file,
             const IndexPeer::Counters& counters)
      : index(machine, peer, token_file, counters) {}

  IndexPeer index;
  // Made when the stores are there.
  std::optional<StoreHoldings> holdings;
  std::optional<Announcer> announcer;
};

class StorageShard final : public serve::ServiceShard {
 public:
  StorageShard(Shared& shared, serve::ShardContext context);
  ~StorageShard() override;

  Task<Result<>> start(Call call) override;
  Task<> stop(Call call) override;
  void apply(const config::Snapshot& snapshot) override;
  void take_keys(const serve::KeySnapshotPtr& keys) override;
  static std::span<const serve::RouteSpec> routes();

 private:
  struct Incoming;  // a request's body, as far as it was read
  struct Document;  // a small JSON body

  // --- get.cpp
  // The part of an object to send. answer_head fills the head and gives it; nothing: the answer is complete.
  struct Wanted {
    http::RangeSet ranges;
    std::uint64_t length = 0;
  };
  bool try_get(serve::Request& request);
  std::optional<Wanted> answer_head(serve::Request& request, const store::ObjectFacts& facts);
  Task<Result<>> get(Call call, serve::Request& request);
  void count_latency(const serve::Request& request, const Wanted& wanted) noexcept;
  void answer_body(serve::Request& request, const Wanted& wanted, Address address,
                   std::shared_ptr<const store::ObjectFacts> facts, store::SetPort::Found found,
                   std::optional<ObjectSource::First> first);
  Task<Result<>> proof(Call call, serve::Request& request);
  Task<Result<>> list(Call call, serve::Request& request);

  // --- put.cpp
  Task<Result<>> take_document(Call call, serve::Request& request, Document& document);
  Task<Result<>> read_document(Call call, serve::Request& request, Document& document);
  Task<Result<>> take_object(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> read_object(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> flush_part(Call call, Incoming& incoming, std::string media_type);
  Task<Result<>> put_at(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> put_anywhere(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> put(Call call, serve::Request& request, Incoming& incoming, std::optional<Address> expected);
  void answer_stored(serve::Request& request, const store::Outcome& outcome);

  // --- uploads.cpp
  Task<Result<>> begin_upload(Call call, serve::Request& request, Document& document);
  Task<Result<>> take_part(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> read_part(Call call, serve::Request& request, Incoming& incoming);
  Task<Result<>> put_part(Call call, serve::Request& request, Incoming& incoming);
  // The upload that the route names, if the request may touch it.
  Task<Result<store::SetPort::FoundUpload>> find_upload(Call call, const serve::Request& request, Ulid token);
  Task<Result<>> upload_status(Call call, serve::Request& request);
  Task<Result<>> abort_upload(Call call, serve::Request& request);
  Task<Result<>> commit_upload(Call call, serve::Request& request, Document& document);

  // --- admin.cpp
  Task<Result<>> remove(Call call, serve::Request& request);
  Task<Result<>> put_pin(Call call, serve::Request& request);
  Task<Result<>> remove_pin(Call call, serve::Request& request);
  Task<Result<>> pin(Call call, serve::Request& request, bool pinned);
  Task<Result<>> status(Call call, serve::Request& request);
  Task<Result<>> scrub(Call call, serve::Request& request);
  Task<Result<>> accept_losses(Call call, serve::Request& request);
  Task<> watch_gates(Call call);

  // On shard 0. Cancel: clean — nothing is in use yet.
  Task<Result<>> make_stores(Call call);
  bool is_home(std::size_t directory) const noexcept {
    return shared_.home_of(directory) == machine_.shard.index();
  }
  // Opens the store and starts the tasks that tend it. Cancel: partial — as after a crash.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the store outlives the task
  Task<Result<>> open_store(Call call, store::ObjectStore& store);
  void show_gates() noexcept;

  // --- announcing.cpp
  void prepare_announcing();
  // Waits until every store is open, and runs the announcer. Cancel: clean.
  Task<> announce(Call call);

  // Keeps large pages of the cache ready. Cancel: clean.
  Task<> prepare_cache(Call call);

  Library library() noexcept {
    return {*ports_, *shared_.cache, shared_.metrics.integrity.at(0), slot_,
            context_.settings.request_timeout};
  }
  // Returns the result of `taking`, and counts the bodies that the decode guard refused.
  Task<Result<>> count_refused(serve::Request& request, Task<Result<>> taking);

  Shared& shared_;
  serve::ShardContext context_;
  io::Machine machine_;
  observe::Slot slot_;
  std::unique_ptr<store::SetPort> ports_;
  std::unique_ptr<Announcing> announcing_;  // none: there is nobody to tell
  std::uint64_t changed_dropped_ = 0;       // as counted
};

store::UploadOwner owner_of(const serve::Request& request);
// The media type that the client gave, if it can be sent in an answer, else the unknown one.
std::string media_type_of(const serve::Request& request);

}  // namespace cairn::storage
