// The BIO between OpenSSL and a TlsStream: reads from the stream below, and gathers what OpenSSL writes in
// the TlsStream's own buffers. Internal to io/tls_*.
#pragma once

#include "io/tls_context.h"

namespace cairn::io {

class TlsStream;

// Null: no memory.
TlsOwned<bio_method_st> make_tls_carrier() noexcept;
// Connects `connection` with the stream. False: no memory.
bool carry_tls(const TlsParty& party, ssl_st* connection, TlsStream& stream) noexcept;

}  // namespace cairn::io
