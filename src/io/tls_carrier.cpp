#include "io/tls_carrier.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include "io/tls_stream.h"

namespace cairn::io {

struct TlsCarrier {
  static TlsStream& of(BIO* bio) noexcept { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

  // A stream that has just said that it has no more is not asked again before it says otherwise. One that
  // always has more is asked again in the next attempt.
  static int read(BIO* bio, char* into, std::size_t size, std::size_t* got) {
    TlsStream& stream = of(bio);
    Stream& below = *stream.below_;
    BIO_clear_retry_flags(bio);
    *got = 0;
    const bool more = below.readable.ready();
    if (more && stream.attempt_bytes_ >= TlsStream::attempt_bytes_max) stream.cut_ = true;
    const Io read = more && !stream.cut_ ? below.try_read({reinterpret_cast<std::byte*>(into), size})
                                         : Io{IoStatus::would_block};
    switch (read.status) {
      case IoStatus::done:
        stream.attempt_bytes_ += read.count;
        *got = read.count;
        return 1;
      case IoStatus::would_block:
        BIO_set_retry_read(bio);
        return -1;
      case IoStatus::eof:
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
        return 0;
      case IoStatus::failed:
        return -1;
    }
    return -1;
  }

  static int write(BIO* bio, const char* from, std::size_t size, std::size_t* taken) {
    TlsStream& stream = of(bio);
    BIO_clear_retry_flags(bio);
    *taken = 0;
    if (!stream.reserve(size)) {
      BIO_set_retry_write(bio);
      return -1;
    }
    stream.append({reinterpret_cast<const std::byte*>(from), size});
    *taken = size;
    return 1;
  }

  static long control(BIO* bio, int what, long, void*) {
    switch (what) {
      case BIO_CTRL_FLUSH:
        return 1;  // the stream sends what was gathered after each step
      case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
      default:
        return 0;
    }
  }

  // OpenSSL tells of every record by its header, and of every message of a handshake.
  static void seen(int written, int, int type, const void*, std::size_t, SSL*, void* stream) {
    if (written == 0 && (type == SSL3_RT_HEADER || type == SSL3_RT_HANDSHAKE))
      static_cast<TlsStream*>(stream)->count_arrival();
  }

  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }
};

TlsOwned<bio_method_st> make_tls_carrier() noexcept {
  TlsOwned<bio_method_st> method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream"));
  if (!method) return method;
  BIO_meth_set_read_ex(method.get(), &TlsCarrier::read);
  BIO_meth_set_write_ex(method.get(), &TlsCarrier::write);
  BIO_meth_set_ctrl(method.get(), &TlsCarrier::control);
  BIO_meth_set_create(method.get(), &TlsCarrier::create);
  return method;
}

bool carry_tls(const TlsParty& party, ssl_st* connection, TlsStream& stream) noexcept {
  BIO* bio = BIO_new(party.carrier());
  if (bio == nullptr) return false;
  BIO_set_data(bio, &stream);
  SSL_set_bio(connection, bio, bio);  // which frees it
  SSL_set_msg_callback(connection, &TlsCarrier::seen);
  SSL_set_msg_callback_arg(connection, &stream);
  return true;
}

}  // namespace cairn::io
