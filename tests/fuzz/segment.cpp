// A segment made of sealed records and whatever else: garbage between them, copies of records inside data,
// flipped bits, a cut end. The scan never yields what was not sealed for that very place, misses none that is
// intact, and accounts for every byte; the log opens, and opens again to the same.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/sim/world.h"
#include "store/log.h"
#include "store/segment.h"

namespace {

using namespace cairn;
using namespace cairn::store;

constexpr std::uint32_t id = 1;

crypto::Hash store_key() {
  crypto::Hash key{};
  key[7] = std::byte{42};
  return key;
}

// The input as a program that writes a segment.
class Forge {
 public:
  explicit Forge(ByteView program) : program_(program), key_(segment_key(store_key(), id)) {
    bytes = as_text(encode_segment_header({id, 0, 0, 0, 1, 0, store_key()}).bytes());
    while (!program_.empty() && bytes.size() < (1 << 20)) step();
  }

  struct Sealed {
    std::size_t offset;
    std::size_t size;
    std::string header_and_meta;
  };
  std::string bytes;
  bool cut = false;

  // The record that was sealed for this place and is still as it was.
  const Sealed* find(std::size_t offset) const {
    for (const Sealed& one : sealed_)
      if (one.offset == offset && one.offset + one.size <= bytes.size() &&
          bytes.compare(offset, one.header_and_meta.size(), one.header_and_meta) == 0)
        return &one;
    return nullptr;
  }
  std::size_t intact() const {
    return static_cast<std::size_t>(std::count_if(
        sealed_.begin(), sealed_.end(), [&](const Sealed& one) { return find(one.offset) == &one; }));
  }

 private:
  std::size_t number() {
    if (program_.empty()) return 0;
    const auto value = static_cast<std::size_t>(program_[0]);
    program_ = program_.subspan(1);
    return value;
  }
  std::string text(std::size_t size) {
    const ByteView taken = program_.first(std::min(size, program_.size()));
    program_ = program_.subspan(taken.size());
    return std::string(as_text(taken));
  }
  void seal(std::string meta, std::string data) {
    bytes.resize((bytes.size() + 7) / 8 * 8);
    RecordHeader header;
    header.sequence = header.origin = ++sequence_;
    header.watermark = watermark_;
    header.meta_size = static_cast<std::uint32_t>(meta.size());
    header.data_size = static_cast<std::uint32_t>(data.size());
    header.offset = static_cast<std::uint32_t>(bytes.size());
    const std::string head(as_text(encode_header(header, as_bytes(meta), key_)));
    sealed_.push_back({bytes.size(), static_cast<std::size_t>(header.size()), head + meta});
    const std::size_t end = bytes.size() + static_cast<std::size_t>(header.size());
    bytes += head + meta + data;
    bytes.resize(end);
  }
  void step() {
    switch (number() % 6) {
      case 0:
        bytes += text(number());
        break;
      case 1: {
        const std::size_t meta = number(), data = number() * 8;
        seal(text(meta), text(data));
        break;
      }
      case 2: {  // data that holds another record
        if (sealed_.empty()) break;
        const Sealed other = sealed_[number() % sealed_.size()];
        seal(text(8), bytes.substr(std::min(other.offset, bytes.size()), other.size));
        break;
      }
      case 3: {
        const std::size_t at = number() * 256 + number();
        const auto mask = static_cast<char>(number());
        if (bytes.size() > segment_header_size) {
          char& hit = bytes[segment_header_size + at % (bytes.size() - segment_header_size)];
          hit = static_cast<char>(hit ^ mask);
        }
        break;
      }
      case 4:
        watermark_ = sequence_;
        break;
      default:
        cut = true;
        bytes.resize(std::max(bytes.size() - std::min(bytes.size(), number()), segment_header_size));
        break;
    }
  }

  ByteView program_;
  SealKey key_;
  std::uint64_t sequence_ = 0, watermark_ = 0;
  std::vector<Sealed> sealed_;
};

struct Kept final : Replay {
  const Forge* forge = nullptr;
  std::size_t records = 0;
  Task<Result<>> on_record(Call, Entry entry) override {
    if (forge != nullptr) CHECK(forge->find(entry.at.offset) != nullptr);
    ++records;
    co_return Result<>{};
  }
  Task<Result<>> on_damage(Call, Damage damage) override {
    CHECK(damage.from <= damage.to);
    co_return Result<>{};
  }
};

class Bench {
 public:
  explicit Bench(std::uint64_t seed) : world_(seed), node_(world_.add_node("a")), machine_(node_.machine()) {
    node_.disk().faults.cold = seed % 2 == 0 ? 0 : 500'000;
  }

  void put(std::string_view path, std::string_view text) { node_.disk().put(path, text); }
  template <class T>
  Result<T> run(Task<Result<T>> task) {
    std::optional<Result<T>> out;
    node_.scope().spawn("run", into(std::move(task), &out));
    CHECK(world_.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }
  Call call() { return node_.scope().call(); }
  io::Machine& machine() { return machine_; }

 private:
  template <class T>
  static Task<> into(Task<Result<T>> task, std::optional<Result<T>>* out) {
    out->emplace(co_await std::move(task));
  }
  io::sim::World world_;
  io::sim::Node& node_;
  io::Machine machine_;
};

// Nothing in it was sealed under this key.
void scan_raw(Bench& bench, std::string_view bytes) {
  bench.put("raw", bytes);
  auto file = bench.run(bench.machine().disk.open(bench.call(), "raw", io::OpenMode::read));
  CHECK(file.has_value());
  SegmentScan scan(bench.machine(), std::move(*file), id, segment_key({}, 77), 0, bytes.size());
  for (;;) {
    auto found = bench.run(scan.next(bench.call()));
    CHECK(found.has_value() && !found->entry);
    if (!found->damage) break;
  }
}

void scan_forged(Bench& bench, const Forge& forge) {
  bench.put("log/0000000001.seg", forge.bytes);
  auto file = bench.run(bench.machine().disk.open(bench.call(), "log/0000000001.seg", io::OpenMode::read));
  CHECK(file.has_value());
  SegmentScan scan(bench.machine(), std::move(*file), id, segment_key(store_key(), id), 0,
                   forge.bytes.size());
  std::uint64_t cursor = segment_header_size, last = 0;
  std::size_t count = 0;
  for (;;) {
    auto found = bench.run(scan.next(bench.call()));
    CHECK(found.has_value());
    if (found->damage) {
      CHECK(found->damage->from == cursor && found->damage->to >= cursor);
      cursor = found->damage->to;
    } else if (found->entry) {
      CHECK(found->entry->at.offset == cursor && found->entry->header.sequence > last);
      const Forge::Sealed* sealed = forge.find(static_cast<std::size_t>(cursor));
      CHECK(sealed != nullptr);
      CHECK(std::string_view(sealed->header_and_meta).substr(record_header_size) == found->entry->meta);
      last = found->entry->header.sequence;
      cursor += found->entry->header.size();
      ++count;
    } else {
      break;
    }
  }
  CHECK(cursor == forge.bytes.size());
  if (!forge.cut) CHECK(count == forge.intact());
}

void open_forged(Bench& bench, const Forge& forge) {
  bench.put("log/key", as_text(encode_key_file(store_key()).bytes()));
  LogOptions options;
  options.directory = "log";
  options.segment_size = 4 << 20;
  options.reserve = 0;
  LogReport report;
  Kept kept;
  kept.forge = &forge;
  auto log = bench.run(Log::open(bench.call(), bench.machine(), options, {}, kept, report));
  CHECK(log.has_value());
  const std::uint64_t end = (*log)->end().sequence;
  std::vector<Record> batch(1);
  batch[0].meta = "more";
  const auto placed = bench.run((*log)->append(bench.call(), std::move(batch)));
  CHECK(placed.has_value() && placed->front().header.sequence == end + 1);
  log->reset();
  Kept again;
  log = bench.run(Log::open(bench.call(), bench.machine(), options, {}, again, report));
  CHECK(log.has_value() && report.cut_bytes == 0 && again.records == kept.records + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  Bench bench(size);
  scan_raw(bench, as_text(input));
  const Forge forge(input);
  scan_forged(bench, forge);
  open_forged(bench, forge);
  return 0;
}
