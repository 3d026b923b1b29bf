// Incoming: a request's body between stage() and handle(). Recycled as frames are: every upload has one.
#pragma once

#include <optional>
#include <string>

#include "http/exchange.h"
#include "runtime/task.h"
#include "services/storage/shard.h"
#include "store/draft.h"

namespace cairn::storage {

struct StorageShard::Incoming final : http::RequestState, PooledFrame {
  std::optional<store::Draft> draft;
  std::uint64_t size = 0;
  std::uint64_t said = 0;  // what it will be; 0: not known
  // Of a body larger than one part: the upload it is kept in.
  store::StorePort* port = nullptr;
  Ulid token;
  store::UploadOwner owner;
  std::uint64_t parts = 0;
  std::string document;  // a small JSON body
};

}  // namespace cairn::storage
