// Functions that the verbs about objects share: from the name that a person gives to an object, and from the
// object to stdout.
#pragma once

#include <optional>
#include <string>

#include "cairn/session.h"
#include "format/manifest.h"

namespace cairn::cli {

// An object that was asked for by address, beginning of an address, or path inside a manifest.
struct Found {
  client::ObjectInfo info;
  std::string path;                   // inside a manifest; empty: the object was named directly
  std::optional<std::uint64_t> size;  // as that manifest says

  bool is_manifest() const noexcept { return info.media_type == format::manifest_media_type; }
};

// As run_session, for a verb whose arguments are such names: any other word is a usage error.
int ask_about_objects(const Invocation& invocation, Work work);

// `b3:…`, `b3:abc123`, either with `/path`. Cancel: clean.
Task<client::Outcome<Found>> find_object(Call call, Session* session, std::string name);
// Verified and decoded. Cancel: clean.
Task<client::Outcome<format::Manifest>> read_manifest(Call call, Session* session, Address address);
// Writes the object's verified bytes and nothing else. A manifest only if `raw`. Cancel: partial — some was
// written.
Task<Exit> write_to_stdout(Call call, Session* session, Found found, bool raw);

}  // namespace cairn::cli
