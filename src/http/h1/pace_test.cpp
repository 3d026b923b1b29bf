// Clients at every rate: who is cut, who never is.
#include "http/h1/pace.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "http/h1/server.h"
#include "io/sim/guest.h"

namespace cairn::http {
namespace {

using io::sim::Guest;

constexpr std::uint16_t port = 80;
constexpr std::uint64_t kib = 1024;

TEST(Pace, below_the_lowest_rate_is_too_slow_at_once) {
  Pace pace(false);
  pace.sent(100 * kib);
  EXPECT_TRUE(pace.too_slow(96 * kib, 5 * kib));
}

TEST(Pace, what_was_taken_beyond_the_lowest_rate_counts_later_up_to_a_bound) {
  Pace pace(false);
  pace.sent(1000 * kib);
  EXPECT_FALSE(pace.too_slow(100 * kib, 5 * kib)) << "900 KiB taken";
  for (int i = 0; i < Pace::windows_saved_max; ++i) EXPECT_FALSE(pace.too_slow(100 * kib, 5 * kib)) << i;
  EXPECT_TRUE(pace.too_slow(100 * kib, 5 * kib));
}

TEST(Pace, a_window_ends_when_it_says_and_begins_anew_with_another_answer) {
  Pace pace(false);
  const Duration window = Duration::seconds(5);
  const Instant begin = Instant{} + Duration::seconds(100);
  EXPECT_EQ(pace.judged_at(begin, window), begin + window);
  EXPECT_EQ(pace.judged_at(begin + Duration::seconds(2), window), begin + window);
  EXPECT_EQ(pace.judged_at(begin + Duration::seconds(9), window), begin + Duration::seconds(14));
  pace.start_over();
  EXPECT_EQ(pace.judged_at(begin + Duration::seconds(10), window), begin + Duration::seconds(15));
}

TEST(Pace, a_peer_that_acknowledges_nothing_any_more_has_vanished) {
  Pace pace(false);
  const Duration span = Duration::seconds(60);
  const auto at = [](int seconds) { return Instant{} + Duration::seconds(1000 + seconds); };
  EXPECT_FALSE(pace.vanished(at(0), 0, span));
  pace.sent(100);
  EXPECT_FALSE(pace.vanished(at(100), 0, span)) << "all was acknowledged";
  pace.sent(100);
  EXPECT_FALSE(pace.vanished(at(115), 100, span));
  pace.sent(100);
  EXPECT_FALSE(pace.vanished(at(150), 150, span)) << "some of it was";
  EXPECT_FALSE(pace.vanished(at(200), 150, span));
  EXPECT_TRUE(pace.vanished(at(210), 150, span));
}

// The records that end a handshake of TLS are not counted as sent, and may be outstanding at the first look.
TEST(Pace, what_is_outstanding_at_the_first_look_is_no_silence_yet) {
  Pace pace(false);
  const Duration span = Duration::seconds(60);
  const auto at = [](int seconds) { return Instant{} + Duration::seconds(1000 + seconds); };
  EXPECT_FALSE(pace.vanished(at(0), 255, span));
  EXPECT_FALSE(pace.vanished(at(59), 255, span));
  EXPECT_TRUE(pace.vanished(at(60), 255, span));
}

// A Unix socket's queue is counted with its overhead: more may seem queued than was ever written.
TEST(Pace, a_peer_whose_reads_are_counted_has_time_for_its_first_piece) {
  Pace pace(true);
  pace.sent(100 * kib);
  for (int i = 0; i < Pace::windows_saved_max; ++i) EXPECT_FALSE(pace.too_slow(130 * kib, 5 * kib)) << i;
  EXPECT_TRUE(pace.too_slow(130 * kib, 5 * kib));
}

// /big answers with `big`, anything else is read and counted.
class Desk final : public Gate, public Answerer {
 public:
  Next begin(Exchange& exchange) override {
    if (exchange.request().path() != "/big") return Next::handle;
    exchange.response.answer_view("text/plain", big);
    return Next::answered;
  }
  Task<> handle(Call call, Exchange& exchange) override {
    call = call.by(exchange.started + Duration::seconds(3600));
    for (;;) {
      auto slice = co_await exchange.body.next(call);
      if (!slice) exchange.response.status = status_of(slice.error().code);
      if (!slice || slice->empty()) co_return;
    }
  }
  void refuse(Exchange&, Error) override {}
  void finished(Exchange&, bool whole) override { complete = whole; }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow what) override { ++(what == Slow::read ? slow_reads : slow_writes); }

  std::string big;
  std::optional<bool> complete;
  int slow_reads = 0, slow_writes = 0;
};

class Rates {
 public:
  Rates() {
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  ~Rates() { world.stop(); }
  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Desk desk;
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

// Reads `rate` bytes a second in steps of `step` until the answer ended one way or the other.
struct Reader {
  std::uint64_t rate;
  std::size_t send_buffer;
  std::size_t window;
  std::size_t reopen;
  Duration step;
};

bool arrives(const Reader& reader) {
  Rates rates;
  io::sim::NetworkFaults& faults = rates.world.network().faults;
  faults.send_buffer = reader.send_buffer;
  faults.window = reader.window;
  faults.reopen = reader.reopen;
  // More than the kernels hold, for two minutes of reading.
  rates.desk.big.assign(
      reader.send_buffer + reader.window + std::min<std::uint64_t>(120 * reader.rate, 8 << 20), 'b');
  Guest guest(rates.world, rates.away, {"host", port, {}});
  guest.reading = false;
  guest.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto piece = static_cast<std::size_t>(static_cast<double>(reader.rate) * reader.step.to_seconds());
  while (!rates.desk.complete) {
    guest.run_for(reader.step);
    guest.take(piece);
  }
  EXPECT_EQ(rates.desk.slow_writes, *rates.desk.complete ? 0 : 1);
  return *rates.desk.complete;
}

TEST(SlowReader, above_the_lowest_rate_is_never_cut_and_below_it_always) {
  for (const std::uint64_t rate : {512u, 2048u, 10u * 1024, 65'536u, 1u << 20})
    for (const std::size_t send_buffer : {16u * 1024, 32u * 1024, 512u * 1024, 2560u * 1024})
      for (const std::size_t window : {4u * 1024, 64u * 1024})
        for (const std::size_t reopen : {std::size_t{0}, window})
          for (const Duration step : {Duration::millis(50), Duration::seconds(2)})
            EXPECT_EQ(arrives({rate, send_buffer, window, reopen, step}), rate >= 1024)
                << rate << " B/s, buffer " << send_buffer << ", window " << window << " by " << reopen;
}

TEST(SlowReader, one_that_stops_is_cut_whatever_it_took_before) {
  Rates rates;
  rates.desk.big.assign(16 << 20, 'b');
  Guest guest(rates.world, rates.away, {"host", port, {}});
  guest.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(guest.until([&] { return guest.got().size() > (8 << 20); }));
  guest.reading = false;
  guest.run_for(Duration::seconds(5) * (Pace::windows_saved_max + 2) + Duration::seconds(1));
  EXPECT_EQ(rates.desk.complete, false);
  EXPECT_EQ(rates.desk.slow_writes, 1);
}

// The status of a body that is sent at `rate`.
int answer_to(std::uint64_t rate, Duration step, bool chunked) {
  Rates rates;
  const auto piece = static_cast<std::size_t>(static_cast<double>(rate) * step.to_seconds());
  const std::size_t pieces = static_cast<std::size_t>(30 / step.to_seconds());
  Guest guest(rates.world, rates.away, {"host", port, {}});
  guest.send("POST /in HTTP/1.1\r\nHost: h\r\n" +
             (chunked ? "Transfer-Encoding: chunked" : "Content-Length: " + std::to_string(piece * pieces)) +
             "\r\n\r\n");
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", piece);
  for (std::size_t i = 0; i < pieces && !rates.desk.complete; ++i) {
    if (chunked) guest.send(size);
    guest.send(std::string(piece, 'p'));
    if (chunked) guest.send("\r\n");
    guest.run_for(step);
  }
  if (chunked) guest.send("0\r\n\r\n");
  const int status = guest.answer().status;
  EXPECT_EQ(rates.desk.slow_reads, status == 200 ? 0 : 1);
  return status;
}

TEST(SlowWriter, above_the_lowest_rate_is_taken_and_below_it_408) {
  for (const std::uint64_t rate : {512u, 2048u, 65'536u, 1u << 20})
    for (const Duration step : {Duration::millis(50), Duration::seconds(1), Duration::seconds(2)})
      for (const bool chunked : {false, true})
        EXPECT_EQ(answer_to(rate, step, chunked), rate >= 1024 ? 200 : 408) << rate << " B/s";
}

}  // namespace
}  // namespace cairn::http
