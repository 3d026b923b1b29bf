// StorageClient: a typed interface to the storage service. Each function is one request and its answer. Work
// that takes several requests (large objects, verified reads) is in upload.h and download.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "client/transport.h"

namespace cairn::client {

// The largest request body that the server accepts, and the size of an upload's part.
inline constexpr std::uint64_t body_max = 1 << 20;

struct ObjectInfo {
  Address address;
  std::uint64_t size = 0;
  std::string media_type = {};
  std::optional<bool> pinned = {};
};

struct ListQuery {
  std::string prefix = {};  // of the text form, `b3:` included; empty: all
  std::string after = {};   // the cursor of the page before
  std::uint32_t limit = 1000;
};
struct Listing {
  std::vector<ObjectInfo> objects;
  std::string next;  // empty: this was the last page
};

struct Stored {
  Address address;
  std::uint64_t size = 0;
  bool fresh = true;  // false: it was there already
};

struct UploadStatus {
  std::uint64_t contiguous = 0;  // bytes from the beginning that are durable
  // First and last byte of each missing range, ascending; nullopt when the server does not say. A long list
  // may be cut at its end: the ranges beyond it become known once the listed ones have arrived.
  std::optional<std::vector<std::pair<std::uint64_t, std::uint64_t>>> missing;

  friend bool operator==(const UploadStatus&, const UploadStatus&) = default;
};

struct ServerVersion {
  std::string service, version, git;
};

struct Readiness {
  bool ready = false;
  bool write_ready = false;
  bool degraded = false;
  std::vector<std::string> missing;
  std::string raw;  // as sent
};

// For all functions: Cancel: partial — the server may have acted; every call may be made again.
class StorageClient {
 public:
  explicit StorageClient(Transport& transport) noexcept : transport_(transport) {}
  Transport& transport() noexcept { return transport_; }

  // `bytes` (at most body_max) outlive the call; `address` is the address of `bytes`.
  Task<Outcome<Stored>> put(Call call, Address address, ByteView bytes, std::string media_type);
  Task<Outcome<ObjectInfo>> head(Call call, Address address);
  Task<Outcome<Listing>> list(Call call, ListQuery query);
  Task<Outcome<>> remove(Call call, Address address);
  Task<Outcome<>> pin(Call call, Address address);
  Task<Outcome<>> unpin(Call call, Address address);

  Task<Outcome<std::string>> begin_upload(Call call, std::optional<std::uint64_t> size,
                                          std::string media_type);
  Task<Outcome<>> send_part(Call call, std::string upload, std::uint64_t offset, ByteView bytes);
  Task<Outcome<UploadStatus>> upload_status(Call call, std::string upload);
  // If the answer to a commit was lost with its connection, a second commit finds no such upload. In that
  // case this asks for the object itself.
  Task<Outcome<Stored>> commit_upload(Call call, std::string upload, Address address, std::uint64_t size);
  Task<Outcome<>> abandon_upload(Call call, std::string upload);

  // These two return an open answer, from which the caller reads the proof's or the object's bytes.
  Task<Outcome<http::ClientResponse>> open_proof(Call call, Address address, std::uint64_t first,
                                                 std::uint64_t last);
  // Without a range: the whole object.
  Task<Outcome<http::ClientResponse>> open_object(
      Call call, Address address, std::optional<std::pair<std::uint64_t, std::uint64_t>> range);

  Task<Outcome<std::string>> status(Call call);  // the JSON as sent
  Task<Outcome<>> accept_losses(Call call);
  Task<Outcome<ServerVersion>> version(Call call);
  // A server that is not ready answers too: its answer is returned, and is no failure.
  Task<Outcome<Readiness>> readiness(Call call);
  Task<Outcome<>> revoke_key(Call call, std::string key_id);

 private:
  Task<Outcome<>> send_for_nothing(Call call, Ask ask);

  Transport& transport_;
};

// `a-b,c-d` with inclusive ends, ascending and apart; nothing when the text is not that.
std::optional<std::vector<std::pair<std::uint64_t, std::uint64_t>>> parse_missing(std::string_view text);

}  // namespace cairn::client
