#include "codec/json_writer.h"
#include "runtime/wait.h"
#include "services/storage/shard.h"
#include "store/object_home.h"

namespace cairn::storage {

using serve::Request;

Task<Result<>> StorageShard::remove(Call call, Request& request) {
  const Address address = request.route.address;
  // Removes the object from every directory that has it; bad copies too.
  CO_TRY(const std::size_t removed, co_await ports_->remove(call, address));
  if (removed == 0) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  request.response.status = 204;
  co_return Result<>{};
}

Task<Result<>> StorageShard::put_pin(Call call, Request& request) { return pin(call, request, true); }
Task<Result<>> StorageShard::remove_pin(Call call, Request& request) { return pin(call, request, false); }

Task<Result<>> StorageShard::pin(Call call, Request& request, bool pinned) {
  CO_TRY(const std::size_t done, co_await ports_->pin(call, request.route.address, pinned));
  if (done == 0) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  request.response.status = 204;
  co_return Result<>{};
}

Task<Result<>> StorageShard::status(Call, Request& request) {
  codec::JsonWriter json(request.response.text);
  std::uint64_t objects = 0, bytes = 0, uploads = 0, upload_bytes = 0, quarantined = 0;
  for (std::size_t i = 0; i < shared_.stores->size(); ++i) {
    const store::StoreStatus& one = shared_.stores->at(i).status();
    objects += one.objects;
    bytes += one.bytes;
    uploads += one.uploads;
    upload_bytes += one.upload_bytes;
    quarantined += one.quarantined;
  }
  json.begin_object()
      .field("objects", objects)
      .field("bytes", bytes)
      .field("uploads", uploads)
      .field("upload_bytes", upload_bytes)
      .field("quarantined", quarantined)
      .field("cache_bytes", shared_.cache->bytes())
      .field("cache_capacity", shared_.cache->capacity())
      .key("data_dirs")
      .begin_array();
  for (std::size_t i = 0; i < shared_.stores->size(); ++i) {
    store::ObjectStore& store = shared_.stores->at(i);
    const store::StoreStatus& one = store.status();
    json.begin_object()
        .field("directory", store.options().directory)
        .field("writable", store.writable())
        .field("fenced", one.fenced.load())
        .field("full", one.full.load())
        .field("room_bytes", one.room_bytes.load())
        .field("index", !one.index_damaged     ? "ok"
                        : one.index_lacks_room ? "no_room"
                                               : "remade")
        .field("objects", one.objects.load())
        .field("bytes", one.bytes.load())
        .field("uploads", one.uploads.load())
        .field("upload_bytes", one.upload_bytes.load())
        .field("segments", one.segments.load())
        .field("lost_segments", one.lost_segments.load())
        .field("first_lost_segment", one.first_lost.load())
        .field("whole", one.whole())
        .field("log_bytes", one.log_bytes.load())
        .field("dead_bytes", one.dead_bytes.load())
        .field("damaged_places", one.damage.load())
        .field("foreign_files", one.foreign.load())
        .field("home_shard", one.home.load())
        .key("scrub")
        .begin_object()
        .field("segment", one.scrub_segment.load())
        .field("passes", one.scrub_passes.load())
        .field("bytes", one.scrub_bytes.load())
        .end_object()
        .end_object();
  }
  json.end_array().end_object().finish();
  request.response.answer_text("application/json");
  co_return Result<>{};
}

Task<Result<>> StorageShard::scrub(Call, Request& request) {
  for (std::size_t i = 0; i < shared_.stores->size(); ++i) shared_.stores->at(i).ask_for_scrub();
  request.response.status = 202;
  co_return Result<>{};
}

Task<Result<>> StorageShard::accept_losses(Call, Request& request) {
  for (std::size_t i = 0; i < shared_.stores->size(); ++i) shared_.stores->at(i).ask_to_accept_losses();
  request.response.status = 202;
  co_return Result<>{};
}

void StorageShard::show_gates() noexcept {
  context_.health.set("writes", shared_.stores->takes_writes(machine_.shard.now()));
  context_.health.set("whole", shared_.stores->whole());
  context_.health.set("index", !shared_.stores->index_damaged());
}

// Sets the readiness gates from the stores' own state.
Task<> StorageShard::watch_gates(Call call) {
  do {
    show_gates();
    std::uint64_t waiting = 0;
    for (std::size_t i = 0; i < shared_.stores->size(); ++i) waiting += shared_.stores->at(i).waiting();
    context_.metrics.show_depth("changes", slot_, waiting);
    if (shared_.changed == nullptr) continue;
    const store::ChangeFeed::Depth depth = shared_.changed->depth();
    context_.metrics.show_depth("changed", slot_, depth.changes);
    context_.metrics.count_dropped("changed", slot_,
                                   depth.dropped - std::exchange(changed_dropped_, depth.dropped));
  } while (co_await sleep_for(call, Duration::millis(100)));
}

}  // namespace cairn::storage
