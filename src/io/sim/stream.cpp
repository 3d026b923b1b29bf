// The attempts of a simulated stream.
#include <algorithm>

#include "base/check.h"
#include "io/file.h"
#include "io/sim/network.h"

namespace cairn::io::sim {

SimStream::SimStream(SimNetwork& network, Shard& shard, std::uint64_t connection, unsigned side)
    : Stream(shard), network_(network), connection_(connection), side_(side) {
  SimNetwork::Connection* found = network_.find(connection_);
  CHECK(found != nullptr);
  found->ends[side_].stream = this;
  port_ = found->ends[1].port;
  const SimNetwork::End& other = found->ends[1 - side_];
  const unsigned number = other.node + 1;
  peer_.local = found->local;
  if (!peer_.local) {
    const std::uint8_t address[] = {
        0xff, 0xff, 10, 0, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
    std::copy(std::begin(address), std::end(address), peer_.bytes + 10);
    peer_.port = other.port;
  }
  const Pipe& pipe = found->pipes[side_];
  if (pipe.arrived > 0 || pipe.ended || found->ends[side_].failed) readable.signal();
  writable.signal();
}

SimStream::~SimStream() { close(false); }

Io SimNetwork::read(SimStream& stream, std::byte* into, std::size_t count) {
  CHECK(count > 0);
  Connection* connection = find(stream.connection_);
  if (connection == nullptr || connection->ends[stream.side_].failed) return {IoStatus::failed, 0};
  Pipe& pipe = connection->pipes[stream.side_];
  if (pipe.arrived == 0) {
    if (pipe.ended) return {IoStatus::eof, 0};
    stream.readable.clear();
    return {IoStatus::would_block, 0};
  }
  const std::size_t taken = std::min(count, pipe.arrived);
  if (into != nullptr)
    pipe.bytes.pop({into, taken});
  else
    pipe.bytes.drop(taken);
  pipe.arrived -= taken;
  // The end of the stream is an edge of its own, which does not come a second time.
  if (taken < count && !pipe.ended) stream.readable.clear();
  if (pipe.slow) {
    if (pipe.owed == 0) clockwork_.after(faults.slow_for, on_credit, this, key(*connection), stream.side_);
    pipe.owed += taken;
  } else {
    open_window(*connection, stream.side_);
  }
  clockwork_.fold((static_cast<std::uint64_t>(connection->index) << 40) ^ taken);
  return {IoStatus::done, taken};
}

std::pair<SimNetwork::Connection*, IoStatus> SimNetwork::writable(SimStream& stream) {
  Connection* connection = find(stream.connection_);
  if (connection == nullptr || connection->ends[stream.side_].failed) return {nullptr, IoStatus::failed};
  Pipe& pipe = connection->pipes[1 - stream.side_];
  if (pipe.finished) return {nullptr, IoStatus::failed};
  if (pipe.room() == 0) {
    clockwork_.probes.hit("net.window_full");
    pipe.blocked = true;
    // A full buffer goes out whatever the cork says, or the reader could never make room.
    send(*connection, 1 - stream.side_, 0, true);
    stream.writable.clear();
    return {nullptr, IoStatus::would_block};
  }
  return {connection, IoStatus::done};
}

std::size_t SimNetwork::accept_size(std::size_t wanted, std::size_t room) {
  std::size_t size = std::min(wanted, room);
  if (size > 1 && clockwork_.chance(faults.split_write, "net.split_write")) {
    clockwork_.probes.hit("net.split_write");
    size = 1 + clockwork_.choices.pick(static_cast<std::uint32_t>(size - 1), "net.written");
  }
  return size;
}

Io SimNetwork::write(SimStream& stream, std::span<const iovec> parts) {
  const auto [connection, status] = writable(stream);
  if (connection == nullptr) return {status, 0};
  const unsigned to = 1 - stream.side_;
  Pipe& pipe = connection->pipes[to];
  std::size_t total = 0;
  for (const iovec& part : parts) total += part.iov_len;
  CHECK(total > 0);
  const std::size_t taken = accept_size(total, pipe.room());
  std::size_t left = taken;
  for (const iovec& part : parts) {
    const std::size_t count = std::min(left, part.iov_len);
    pipe.bytes.push({static_cast<const std::byte*>(part.iov_base), count});
    left -= count;
  }
  send(*connection, to, taken);
  return {IoStatus::done, taken};
}

Io SimNetwork::send_file(SimStream& stream, File& file, std::uint64_t offset, std::size_t count) {
  CHECK(count > 0);
  const auto [connection, status] = writable(stream);
  if (connection == nullptr) return {status, 0};
  const unsigned to = 1 - stream.side_;
  Pipe& pipe = connection->pipes[to];
  std::vector<std::byte> bytes(accept_size(count, pipe.room()));
  const Result<std::size_t> got = file.copy_out(offset, bytes);
  if (!got) return {IoStatus::failed, 0};
  if (*got == 0) return {IoStatus::failed, 0};  // the file was longer when its size was asked
  pipe.bytes.push({bytes.data(), *got});
  send(*connection, to, *got, true);
  return {IoStatus::done, *got};
}

std::uint64_t SimNetwork::unacknowledged(const SimStream& stream) noexcept {
  const Connection* connection = find(stream.connection_);
  if (connection == nullptr || connection->ends[stream.side_].failed) return 0;
  return connection->pipes[1 - stream.side_].unacknowledged();
}

void SimNetwork::cork(SimStream& stream, bool on) {
  Connection* connection = find(stream.connection_);
  if (connection == nullptr || connection->ends[stream.side_].failed) return;
  connection->pipes[1 - stream.side_].corked = on;  // as MSG_MORE: bytes held back go with the next write
}

void SimNetwork::shutdown_send(SimStream& stream) {
  Connection* connection = find(stream.connection_);
  if (connection != nullptr && !connection->ends[stream.side_].failed) finish(*connection, 1 - stream.side_);
}

void SimNetwork::close(SimStream& stream, bool reset) {
  if (Connection* connection = find(stream.connection_)) close_end(*connection, stream.side_, reset);
}

}  // namespace cairn::io::sim
