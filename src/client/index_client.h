// IndexClient: a typed interface to the index service. Each function is one request and its answer, except
// where it says otherwise.
//
// Checks that need only the answer are made here: it is about what was asked, its tag is the sequence that it
// names, a list goes on in its order, a manifest hashes to its address. If one fails the error is
// `integrity`. It is not checked who signed a change of a name: for that the index is believed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/units.h"
#include "client/transport.h"
#include "crypto/ed25519.h"
#include "format/name.h"

namespace cairn::client {

// The largest manifest that an index keeps. Larger ones are read from storage.
inline constexpr std::size_t index_manifest_max = std::size_t{1} << 20;
inline constexpr std::uint64_t index_page_max = 1000;

// What a name or an address stands for.
struct Resolved {
  enum class Kind : std::uint8_t { name, address };
  Kind kind = Kind::name;
  std::string key;  // as the index has it: `name:docs/guide`, or the address
  Address manifest;
  std::string source;  // where the index knows it from: cache, db, dht
  std::string etag;    // without quotes; of a name its sequence
  std::uint64_t freshness_s = 0;
  std::string providers_hint;

  friend bool operator==(const Resolved&, const Resolved&) = default;
};

struct Provider {
  std::string id, addr, region;
  std::string latency_class;  // as the index counts them; empty: it does not say
  double score = 0;
  std::uint64_t last_seen_s = 0;

  friend bool operator==(const Provider&, const Provider&) = default;
};
struct Providers {
  Address address;
  std::vector<Provider> providers;  // the best first
  // How long the index waited before it asked more targets, and which of them answered first.
  std::optional<double> alpha_ms = {}, beta_ms = {};
  std::string winner = {};
};
struct ProviderQuery {
  std::string region = {};  // empty: none
  std::uint64_t limit = 5;  // 1 to 32
  std::optional<Duration> min_freshness = {};
};

// The newest change of a name.
struct NamedObject {
  std::string name;
  std::optional<Address> manifest = {};  // none: the name is removed
  std::uint64_t sequence = 0;
  WallTime changed_at{};

  friend bool operator==(const NamedObject&, const NamedObject&) = default;
};
struct NameSet {
  NamedObject now;
  bool fresh = false;  // the name led nowhere before
};
struct SetName {
  std::string name;
  Address manifest;
  std::string note = {};  // empty: none
  // The change is only made if this is the name's sequence now.
  std::optional<std::uint64_t> if_match = {};
  bool only_new = false;  // it is only made if the name leads nowhere
};

struct PastChange {
  std::uint64_t sequence = 0;
  std::optional<Address> manifest = {};  // none: the change removed the name
  WallTime at{};
  crypto::Ed25519PublicKey key = {};  // which signed it
  std::string by = {};                // the capability that asked; empty: not known
  std::string note = {};

  friend bool operator==(const PastChange&, const PastChange&) = default;
};
struct NameHistory {
  std::vector<PastChange> changes;    // the newest first
  std::optional<std::uint64_t> next;  // there are more below this sequence
};

struct ListedName {
  std::string name;
  Address manifest;
  WallTime changed_at{};

  friend bool operator==(const ListedName&, const ListedName&) = default;
};
struct NamePage {
  std::vector<ListedName> names;  // ascending
  std::string next;               // there are more behind this name; empty: no more
};

// Where the functions say nothing else: Cancel: partial — the server may have acted.
class IndexClient {
 public:
  explicit IndexClient(Transport& transport) noexcept : transport_(transport) {}
  Transport& transport() noexcept { return transport_; }

  // `key`: a name, with or without `name:` before it, or an address. `fresh`: what the index has learned
  // before does not count. Cancel: clean.
  Task<Outcome<Resolved>> resolve(Call call, std::string key, bool fresh = false);
  // Cancel: clean.
  Task<Outcome<Providers>> providers(Call call, Address address, ProviderQuery query);

  // Cancel: clean.
  Task<Outcome<NamedObject>> name(Call call, std::string name);
  // `precondition_failed` when a condition does not hold. A first try whose answer was lost may have made the
  // change, and then it is what the second one meets. So a change with if_match that is refused counts as
  // made when the name is exactly one change further and leads where it should.
  Task<Outcome<NameSet>> set_name(Call call, SetName wish);
  Task<Outcome<NamedObject>> remove_name(Call call, std::string name,
                                         std::optional<std::uint64_t> if_match = {});
  // The changes below the sequence `after`, or without it from the newest on; `limit` is 1 to index_page_max.
  // Cancel: clean.
  Task<Outcome<NameHistory>> history(Call call, std::string name, std::optional<std::uint64_t> after,
                                     std::uint64_t limit);
  // Names that begin with `prefix`, behind the name `after`; `limit` as above. Cancel: clean.
  Task<Outcome<NamePage>> names(Call call, std::string prefix, std::string after, std::uint64_t limit);

  // Page after page: calls `take` for each until it returns false or `most` were given. True: there are no
  // more. Cancel: clean.
  Task<Outcome<bool>> each_name(Call call, std::string prefix, std::uint64_t most,
                                std::function<bool(const ListedName&)> take);
  Task<Outcome<bool>> each_change(Call call, std::string name, std::uint64_t most,
                                  std::function<bool(const PastChange&)> take);

  // `bytes` (at most index_manifest_max) outlive the call; `address` is theirs. True: the index had it not.
  Task<Outcome<bool>> put_manifest(Call call, Address address, ByteView bytes);
  // The manifest's bytes. Cancel: clean.
  Task<Outcome<std::string>> manifest(Call call, Address address);

 private:
  struct Answer;
  Task<Outcome<Answer>> send(Call call, Ask ask);
  Task<Outcome<NamedObject>> read_named(Call call, Ask ask, std::string name, bool* fresh);
  // The change that `refused` says was not made, if it was made after all.
  Task<Outcome<NamedObject>> find_made(Call call, SetName wish, bool removal, Failure refused);

  Transport& transport_;
};

}  // namespace cairn::client
