// What the `tls.*` keys name: files, read and made into what the streams need. Everything here blocks: for
// the start, and for jobs of the pool.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "config/server_keys.h"
#include "config/snapshot.h"
#include "io/tls_context.h"

namespace cairn::serve {

// Null: TLS is not enabled. The error is text for people: it names the key, the file and what is wrong with
// it.
std::expected<std::shared_ptr<const io::TlsServer>, std::string> load_tls_server(
    const config::Snapshot& snapshot, const config::ServerKeys& keys, const std::string& prefix,
    std::shared_ptr<io::TlsTicketKeys> tickets);

// For calls to peers over TLS. The error as above.
std::expected<std::shared_ptr<const io::TlsClient>, std::string> load_tls_client(
    const config::Snapshot& snapshot, const config::ServerKeys& keys, const std::string& prefix);

}  // namespace cairn::serve
