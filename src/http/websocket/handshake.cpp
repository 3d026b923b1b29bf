#include "http/websocket/handshake.h"

#include "codec/base64.h"
#include "crypto/sha1.h"

namespace cairn::http::websocket {
namespace {

constexpr std::string_view version = "13";
constexpr std::size_t key_size = 16;
// RFC 6455 names it: an answer that holds the hash of both was made by a server that knows WebSockets.
constexpr std::string_view salt = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

}  // namespace

std::string hash_key(std::string_view key) {
  return codec::encode_base64(crypto::sha1(as_bytes(std::string(key).append(salt))));
}

std::string make_key(Random& random) {
  const std::array<std::uint64_t, key_size / 8> words{random.next(), random.next()};
  return codec::encode_base64(std::as_bytes(std::span(words)));
}

Result<> answer(Exchange& exchange, std::unique_ptr<Talk> talk, Options options) {
  const Fields& fields = exchange.request().fields;
  if (fields.get(FieldName::sec_websocket_version) != version ||
      fields.repeated(FieldName::sec_websocket_version))
    return fail(ErrorCode::upgrade_required, "this server speaks version 13 of WebSocket", Side::client);
  const auto key = fields.find(FieldName::sec_websocket_key);
  if (!key && fields.has(FieldName::upgrade))
    return fail(ErrorCode::malformed, "no Sec-WebSocket-Key", Side::client);
  if (key) {
    const auto decoded = codec::decode_base64(*key);
    if (!decoded || decoded->size() != key_size || fields.repeated(FieldName::sec_websocket_key))
      return fail(ErrorCode::malformed, "Sec-WebSocket-Key is not 16 bytes of base64", Side::client);
    exchange.response.add_field("Sec-WebSocket-Accept", hash_key(*key));
  }
  if (fields.has(FieldName::upgrade)) exchange.response.status = 101;
  exchange.response.switch_to(std::make_unique<WebSocket>(std::move(talk), options));
  return {};
}

}  // namespace cairn::http::websocket
