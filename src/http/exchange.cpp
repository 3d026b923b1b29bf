#include "http/exchange.h"

namespace cairn::http {

void Response::clear() noexcept {
  status = 200;
  kind = Body::none;
  close = false;
  abandoned = false;
  content_type = {};
  view = {};
  text.clear();
  file.reset();
  offset = count = 0;
  source.reset();
  conversation = nullptr;
  sized = switches = false;
  hold.reset();
  fields.clear();
}

void Exchange::clear() noexcept {
  response.fields.reset();
  response.clear();
  encrypted = false;
  upgrade = {};
  reserved = without_place = attends = health_only = false;
  taking_body = stays_open = is_health = false;
  if (attached) attached->clear();
}

}  // namespace cairn::http
