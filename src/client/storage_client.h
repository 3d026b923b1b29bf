// StorageClient: the storage service's surface, typed. One request and its answer each; what takes several
// (large objects, verified reads) is in upload.h and download.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "client/transport.h"

namespace cairn::client {

// What the server takes in one request body, and the size of an upload's part.
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
  // First and last byte of what is still to come, ascending; nullopt when the server does not say.
  // A long list may be cut at its end: what is beyond it becomes known once the rest is there.
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

// All: Cancel: partial — the server may have acted; every call may be made again.
class StorageClient {
 public:
  explicit StorageClient(Transport& transport) noexcept : transport_(transport) {}
  Transport& transport() noexcept { return transport_; }

  // `bytes` (at most body_max) outlive the call; `address` is theirs.
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
  // A commit that was answered into a broken connection looks like an upload that is gone: then the object
  // itself is asked for.
  Task<Outcome<Stored>> commit_upload(Call call, std::string upload, Address address, std::uint64_t size);
  Task<Outcome<>> abandon_upload(Call call, std::string upload);

  // The proof's and the object's bytes come as an open answer.
  Task<Outcome<http::ClientResponse>> open_proof(Call call, Address address, std::uint64_t first,
                                                 std::uint64_t last);
  // Without a range: the whole object.
  Task<Outcome<http::ClientResponse>> open_object(
      Call call, Address address, std::optional<std::pair<std::uint64_t, std::uint64_t>> range);

  Task<Outcome<std::string>> status(Call call);  // the JSON as sent
  Task<Outcome<>> accept_losses(Call call);
  Task<Outcome<ServerVersion>> version(Call call);
  // A server that is not ready answers too: its words are the outcome, not a failure.
  Task<Outcome<Readiness>> readiness(Call call);
  Task<Outcome<>> revoke_key(Call call, std::string key_id);

 private:
  Task<Outcome<>> send_for_nothing(Call call, Ask ask);

  Transport& transport_;
};

// `a-b,c-d` with inclusive ends, ascending and apart; nothing when it is not that.
std::optional<std::vector<std::pair<std::uint64_t, std::uint64_t>>> parse_missing(std::string_view text);

}  // namespace cairn::client
