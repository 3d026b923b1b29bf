// A stranger's bytes through everything a request goes through: a connection, an exchange, the pipeline and
// the storage service over a simulated disk, all of them made anew for each input, so that no buffer that an
// earlier request has grown hides a fault. Whatever comes in, the process lives, gives its places back and
// ends the connection; every answer is whole, well-formed, of a status that the tables know, and says when
// and for whom it was made; behind one that closes there is nothing.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "services/storage/simulated_service.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace cairn {
namespace {

using fuzz::require;
using grammar::Message;
using grammar::Verdict;

bool is_status(int status) {
  static const std::set<int> known = [] {
    std::set<int> all{200, 201, 202, 204, 206, 304};
#define ERROR_CODE(name, status, retry) all.insert(status);
#include "base/error_codes.def"
#undef ERROR_CODE
    all.erase(0);
    return all;
  }();
  return known.contains(status);
}

struct Answer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;

  std::optional<std::string> only(std::string_view name) const {
    std::optional<std::string> found;
    for (const auto& [key, value] : fields)
      if (grammar::to_lower(key) == name) {
        require(!found, "a field of an answer is repeated");
        found = value;
      }
    return found;
  }
};

// Reads answers one after another, believing nothing.
class Answers {
 public:
  explicit Answers(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }
  bool ends_with_a_head() const { return rest_.ends_with("\r\n\r\n"); }

  Answer next(bool bodiless) {
    Answer answer = head();
    for (unsigned interim = 0; answer.status == 100; ++interim) {
      require(interim == 0 && answer.fields.empty(), "100 Continue");
      answer = head();
    }
    require(is_status(answer.status), "a status that no table knows");
    require(answer.only("date").has_value(), "no Date");
    const auto corr = answer.only("x-corr-id");
    require(corr && corr->size() >= 8 && corr->size() <= 64, "no X-Corr-ID");
    require(answer.only("x-content-type-options") == "nosniff", "no nosniff");
    const auto length = answer.only("content-length"), coding = answer.only("transfer-encoding");
    require(!length || !coding, "two framings in one answer");
    if (answer.status == 204 || answer.status == 304) require(!length && !coding, "framing of no body");
    if (bodiless || answer.status == 204 || answer.status == 304) return answer;
    if (coding) {
      require(*coding == "chunked", "transfer coding of an answer");
      for (std::size_t size = 1; size != 0;) {
        size = std::stoul(std::string(take_line()), nullptr, 16);
        answer.body += take(size);
        require(take(2) == "\r\n", "the end of a chunk");
      }
    } else if (length) {
      require(!length->empty() && length->find_first_not_of("0123456789") == std::string::npos, "a length");
      answer.body = take(std::stoul(*length));
    } else {
      answer.body = take(rest_.size());
    }
    if (answer.status >= 400) {
      require(answer.body.starts_with(R"({"error":{"code":")"), "an error without its body");
      require(answer.body.find(R"("corr_id":")" + *corr) != std::string::npos, "an error of another id");
    }
    return answer;
  }

 private:
  std::string_view take(std::size_t size) {
    require(rest_.size() >= size, "an answer is cut off");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view take_line() {
    const std::size_t end = rest_.find("\r\n");
    require(end != std::string_view::npos, "a line is cut off");
    const std::string_view line = take(end);
    take(2);
    return line;
  }
  Answer head() {
    Answer answer;
    const std::string_view line = take_line();
    require(line.starts_with("HTTP/1.1 ") && line.size() >= 13 && line[12] == ' ', "a status line");
    answer.status = std::stoi(std::string(line.substr(9, 3)));
    for (std::string_view field = take_line(); !field.empty(); field = take_line()) {
      const std::size_t colon = field.find(": ");
      require(colon != 0 && colon != std::string_view::npos, "a field line");
      for (const char c : field.substr(0, colon)) require(grammar::is_tchar(c), "a field name");
      for (const char c : field.substr(colon))
        require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a field value");
      answer.fields.emplace_back(field.substr(0, colon), field.substr(colon + 2));
    }
    return answer;
  }

  std::string_view rest_;
};

// `leaves`: the client ends its side when it has said all, and some of its requests may go unanswered.
void judge(std::string_view got, const std::vector<Message>& asked, bool leaves) {
  Answers answers(got);
  std::size_t given = 0;
  bool closed = false;
  for (; !answers.done(); ++given) {
    require(!closed, "bytes behind an answer that closes");
    require(given < asked.size(), "more answers than requests");
    const Message& message = asked[given];
    // Of a head that is none, nobody can say how much of its method was understood; its answer is the last.
    const bool head = message.method == "HEAD";
    const Answer answer = answers.next(head && (message.head_complete || answers.ends_with_a_head()));
    closed = answer.only("connection") == "close";
    if (message.verdict == Verdict::rejected && !message.head_complete) {
      require(closed, "a connection goes on behind a head that is none");
      require(answer.status == status_of(message.code), "the status of a head that is none");
    }
    if (!message.keep_alive && message.head_complete) require(closed, "it was told to close");
  }
  if (closed || leaves) return;
  const auto whole =
      std::ranges::find_if(asked, [](const Message& m) { return m.verdict != Verdict::accepted; });
  require(given >= static_cast<std::size_t>(whole - asked.begin()), "a request without an answer");
}

void try_stream(std::string_view stream, std::uint32_t seed, bool leaves) {
  // Short, so that the world need not live long to see a silent connection end.
  storage::SimulatedService service(
      {.shards = 1,
       .workers = 1,
       .settings = {{"timeouts.idle", "1s"}, {"timeouts.read", "1s"}, {"timeouts.request", "2s"}}});
  const auto asked = grammar::read_stream(stream, {});
  {
    io::sim::Guest guest = service.connect();
    fuzz::Splits splits(seed);
    for (std::string_view rest = stream; !rest.empty();) {
      const std::size_t size = splits.next(rest.size());
      guest.send(rest.substr(0, size));
      rest.remove_prefix(size);
      if (!rest.empty()) guest.run_for(Duration::micros(200));
    }
    if (leaves) guest.shutdown_send();
    require(guest.until_ended(Duration::seconds(30)), "a connection that never ends");
    if (!guest.broken()) judge(guest.got(), asked, leaves);
  }
  require(service.inflight() == 0, "a place in flight was kept");
  require(service.ask("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").status == 200, "it does not live");
}

const char* const pieces[] = {
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /o HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD /healthz HTTP/1.0\r\n\r\n",
    "PUT /o/b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262 HTTP/1.1\r\nHost: h\r\n",
    "GET /o/b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262 HTTP/1.1\r\nHost: h\r\n",
    "POST /o HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    "POST /uploads HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",
    "Content-Type: text/html\r\n",
    "Content-Encoding: gzip\r\n",
    "Transfer-Encoding: chunked\r\n\r\n",
    "Content-Length: 0\r\n\r\n",
    "Range: bytes=0-0,-1\r\n",
    "If-None-Match: *\r\n",
    "Origin: null\r\n",
    "Expect: 100-continue\r\n",
    "Connection: close\r\n",
    "X-Corr-ID: 12345678\r\n",
    "Deadline: 2020-01-01T00:00:00Z\r\n",
    "Upload-Offset: 0\r\n",
    "3\r\nabc\r\n0\r\n\r\n",
    "http://h",
    "?range=0-1",
    "%2e%2e/",
    "%5c",
    "\\",
    "^",
    "`",
    "{|}",
    "[]",
    "\"media_type\":\"a\\r\\nb\"",
    "\r\n",
    " ",
    "\t",
    "\n",
};

}  // namespace
}  // namespace cairn

// Half of the mutations put a piece of a request somewhere: bytes alone rarely find the second message.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  if ((seed & 1) != 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view piece = cairn::pieces[(seed >> 1) % std::size(cairn::pieces)];
  const std::size_t at = size == 0 ? 0 : ((seed >> 8) & 1) != 0 ? size : (seed >> 9) % size;
  if (size + piece.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memmove(data + at + piece.size(), data + at, size - at);
  std::memcpy(data + at, piece.data(), piece.size());
  return size + piece.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  // Mostly at once: each piece is a turn of the world.
  const std::uint32_t seed = (data[0] & 6) == 0 && size < 512 ? data[0] >> 3 : 0;
  cairn::try_stream(stream, seed == 1 ? 2 : seed, (data[0] & 1) != 0);
  return 0;
}
