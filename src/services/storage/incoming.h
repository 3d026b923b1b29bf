// A request's body, kept between its arrival and the work on it.
#pragma once

#include <optional>
#include <string>

#include "services/storage/shard.h"
#include "store/draft.h"

namespace cairn::storage {

struct StorageShard::Incoming {
  std::optional<store::Draft> draft;
  std::uint64_t size = 0;
  std::uint64_t said = 0;  // the announced size; 0: not known
  // Of a body larger than one part: the upload that keeps it.
  store::StorePort* port = nullptr;
  Ulid token;
  store::UploadOwner owner;
  store::Taker taker;
  std::uint64_t parts = 0;
};

struct StorageShard::Document {
  std::string text;
};

}  // namespace cairn::storage
