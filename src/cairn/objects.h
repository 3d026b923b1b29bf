// Functions that the verbs about objects share: from the name that a person gives to an object, and from the
// object to stdout.
#pragma once

#include <optional>
#include <string>

#include "cairn/session.h"
#include "format/manifest.h"

namespace cairn::cli {

// An object that was asked for by address, beginning of an address, or name, and by a path inside a manifest.
struct Found {
  client::ObjectInfo info;
  std::string name;                   // that led to it; empty: an address did
  std::string path;                   // inside a manifest; empty: the object was named directly
  std::optional<std::uint64_t> size;  // as that manifest says

  bool is_manifest() const noexcept { return info.media_type == format::manifest_media_type; }
};

// As run_session, for a verb whose arguments are such words: any other is a usage error. Names are such words
// if the command says so, unless they are a file here; `name:` before a name makes it one in any case.
int ask_about_objects(const Invocation& invocation, Work work);

// `b3:…`, `b3:abc123`, `docs/guide`, `name:docs/guide`, each with `/path`. Of a word that could be several
// names the longest that there is counts. Cancel: clean.
Task<client::Outcome<Found>> find_object(Call call, Session* session, std::string name);
// Verified and decoded. Cancel: clean.
Task<client::Outcome<format::Manifest>> read_manifest(Call call, Session* session, Address address);
// Writes the object's verified bytes and nothing else. A manifest only if `raw`. Cancel: partial — some was
// written.
Task<Exit> write_to_stdout(Call call, Session* session, Found found, bool raw);

}  // namespace cairn::cli
