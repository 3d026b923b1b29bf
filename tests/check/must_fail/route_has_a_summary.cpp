// expect: no matching constructor for initialization of '[^']*Summary'
// [^\n]*uninitialized|default constructor A route that says nothing of itself would be missing in the
// reference.
#include "serve/route.h"

constexpr cairn::serve::RouteSpec table[] = {{.pattern = "/o",
                                              .methods = cairn::http::Method::get,
#ifdef RIGHT
                                              .summary = "List objects",
#endif
                                              .handlers = {.run = cairn::serve::Run::queued}}};
std::string_view first() { return table[0].pattern; }
