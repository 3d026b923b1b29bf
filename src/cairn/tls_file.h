// Certificates for trying TLS out, as files of a data directory: keys/tls/ca.pem and ca.key, the authority,
// made once; keys/tls/NAME.pem and NAME.key of a server. All are for their owner only (0600).
// Everything here blocks: never on a shard that serves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/command.h"
#include "client/failure.h"
#include "io/tls_context.h"

namespace cairn::cli {

struct TlsFiles {
  std::string authority, certificate, key;  // paths
};

// Makes the authority if there is none, and a certificate for these names in files called after the first.
// An older one of that name is replaced.
client::Outcome<TlsFiles> make_tls_files(const std::string& data, const std::vector<std::string>& names);
// The certificate for this machine's own names, made if there is none.
client::Outcome<TlsFiles> find_local_tls_files(const std::string& data);

// Who vouches for the server of a verb: --ca, CAIRN_CA, else the data directory's authority for a server of
// its own, else the system's.
client::Outcome<std::shared_ptr<const io::TlsClient>> load_trust(const Invocation& invocation,
                                                                 const std::string& data, bool own);

}  // namespace cairn::cli
