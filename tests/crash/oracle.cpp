#include "crash/oracle.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::crash {
namespace {

using io::sim::Image;
using store::KvPair;

const char* name_of(Op::Act act) {
  switch (act) {
    case Op::Act::put:
      return "put";
    case Op::Act::remove:
      return "remove";
    case Op::Act::pin:
      return "pin";
    case Op::Act::unpin:
      return "unpin";
    case Op::Act::begin:
      return "begin";
    case Op::Act::part:
      return "part";
    case Op::Act::commit:
      return "commit";
    case Op::Act::abort:
      break;
  }
  return "abort";
}

Image without_index(const Image& image) {
  Image out = image;
  std::erase_if(out.names, [](const auto& name) { return name.first.starts_with("data/index"); });
  out.prune([](std::uint64_t) { return false; });
  return out;
}

std::string readable(std::string_view key) {
  std::string out;
  for (const char c : key.substr(0, 12)) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return fmt::format("{}:{}", key.substr(0, 1), out);
}

}  // namespace

std::string describe(const Op& op) {
  return fmt::format("{}(content {}, upload {})", name_of(op.act), op.content, op.upload);
}

std::string describe(const Model& model) {
  std::string out = "{";
  for (const auto& [content, pinned] : model.objects) out += fmt::format(" {}{}", content, pinned ? "!" : "");
  for (const auto& [number, upload] : model.uploads) {
    out += fmt::format(" u{}[", number);
    for (const auto& [index, content] : upload.parts) out += fmt::format("{}={} ", index, content);
    out += upload.made ? fmt::format("→{}]", *upload.made) : "]";
  }
  return out + " }";
}

std::uint64_t Possible::hash() const {
  std::uint64_t hash = 0;
  for (const Model& model : models) hash = hash * 31 + std::hash<std::string>()(describe(model));
  return hash;
}

Universe::Universe() {
  for (const std::size_t size : {300u, 6000u, 65537u, 700u, 150u, 0u})
    contents.push_back(store::sample(size));
  for (const std::string& content : contents) addresses.push_back(crypto::hash_object(as_bytes(content)));
}

// What an observer finds.
struct Reopener::Seen {
  std::map<int, bool> objects;
  std::map<int, store::UploadState> uploads;  // of those that were asked for
  std::string strange;                        // something that no model has
  std::string unread;                         // an object that is listed and does not read back
};

Reopener::Reopener(const Universe& universe, const store::StoreOptions& options)
    : universe_(universe), place_(std::make_unique<store::SimulatedStore>()) {
  place_->options = options;
}
Reopener::~Reopener() = default;

std::optional<Finding> Reopener::open(const Image& image, bool with_tasks) {
  place_->stop();
  place_->forget_cached(universe_.addresses);
  place_->disk().set_observer({});
  place_->disk().load(image);
  ++counts.reopened;
  if (auto opened = place_->open(with_tasks); !opened)
    return Finding{"opens", std::string(opened.error().context)};
  return std::nullopt;
}

Task<Result<>> Reopener::look(Call call, Tokens tokens, std::shared_ptr<Seen> into) {
  Seen& seen = *into;
  store::StorePort& port = place_->port();
  CO_TRY(const auto listed, co_await port.list(call, "", std::nullopt, 1000));
  for (const store::Listed& one : listed) {
    const auto found = std::find(universe_.addresses.begin(), universe_.addresses.end(), one.address);
    if (found == universe_.addresses.end()) {
      seen.strange = format_address(one.address);
      co_return Result<>{};
    }
    const auto content = static_cast<int>(found - universe_.addresses.begin());
    seen.objects[content] = one.pinned;
    const auto bytes = co_await store::SimulatedStore::read_task(call, port, one.address);
    if (!bytes)
      seen.unread = fmt::format("content {}: {}", content, bytes.error().context);
    else if (*bytes != universe_.contents[static_cast<std::size_t>(content)])
      seen.unread = fmt::format("content {}: other bytes", content);
  }
  for (const auto& [number, token] : tokens) {
    CO_TRY(auto state, co_await port.upload_state(call, token));
    if (state) seen.uploads[number] = std::move(*state);
  }
  co_return Result<>{};
}

std::optional<Finding> Reopener::compare(const Expected& expected, bool rebuilt) {
  rebuilt = rebuilt || expected.remade;
  const Possible& possible = expected.possible;
  const Tokens& tokens = expected.tokens;
  const auto shared = std::make_shared<Seen>();
  Seen& seen = *shared;
  auto looked = place_->start(look(place_->call(), tokens, shared));
  if (!place_->world.run_until([&] { return looked->has_value(); })) {
    // Somebody found bad bytes and waits for them to be quarantined, which nobody does here. What waits is
    // left behind as it is: there is no way to end it.
    const store::StoreOptions options = place_->options;
    (void)place_.release();
    place_ = std::make_unique<store::SimulatedStore>();
    place_->options = options;
    return Finding{"reads", "bytes of a listed object are bad"};
  }
  if (!**looked) return Finding{"reads", std::string((*looked)->error().context)};
  if (!seen.strange.empty()) return Finding{"nothing_else", seen.strange + " was never stored"};
  if (!seen.unread.empty()) return Finding{"reads", seen.unread};
  const store::StoreStatus& status = place_->store->status();
  if (status.damage != 0) return Finding{"no_damage", "a crash is taken for rot"};
  if (!status.whole() || status.foreign != 0) return Finding{"no_loss", "a crash is taken for a loss"};
  if (status.objects != seen.objects.size()) return Finding{"totals", "objects are not counted right"};
  if (status.dead_bytes > status.log_bytes) return Finding{"totals", "more dead bytes than bytes"};

  std::string wanted;
  for (const Model& model : possible.models) {
    wanted += describe(model);
    if (model.objects != seen.objects) continue;
    bool fits = true;
    std::uint64_t open = 0, ended = 0, bytes = 0;
    for (const auto& [number, upload] : model.uploads) {
      (upload.made ? ended : open) += 1;
      for (const auto& [index, content] : upload.parts)
        if (!upload.made) bytes += universe_.contents[static_cast<std::size_t>(content)].size();
      const auto token = tokens.find(number);
      if (token == tokens.end()) continue;
      const auto found = seen.uploads.find(number);
      // Of an upload that was committed an index made anew knows only while the log still says it.
      if (rebuilt && upload.made) continue;
      if (found == seen.uploads.end()) {
        fits = false;
        continue;
      }
      const store::UploadState& state = found->second;
      std::optional<Address> made;
      if (upload.made) made = universe_.addresses[static_cast<std::size_t>(*upload.made)];
      fits = fits && state.committed == made && state.owner == owner_of_upload(number);
      if (upload.made) continue;
      const auto first = upload.parts.find(0);
      const std::uint64_t size = first == upload.parts.end()
                                     ? 0
                                     : universe_.contents[static_cast<std::size_t>(first->second)].size();
      fits = fits && state.contiguous == size;
    }
    for (const auto& [number, state] : seen.uploads) {
      const auto known = model.uploads.find(number);
      fits = fits && (known != model.uploads.end());
    }
    fits = fits && status.uploads >= open && status.uploads <= open + (rebuilt ? ended : 0);
    if (status.uploads == open) fits = fits && status.upload_bytes == bytes;
    if (fits) return std::nullopt;
  }
  Model found;
  found.objects = seen.objects;
  std::string told = describe(found);
  for (const auto& [number, state] : seen.uploads)
    told += fmt::format(" u{}[{} bytes{}]", number, state.contiguous, state.committed ? ", committed" : "");
  return Finding{"acknowledged", fmt::format("found {} with {} open uploads, possible {}", told,
                                             status.uploads.load(), wanted)};
}

std::optional<Finding> Reopener::check(const Image& image, const Expected& expected) {
  if (auto finding = open(image, false)) return finding;
  return compare(expected, false);
}

std::optional<Finding> Reopener::check_rebuilt(const Image& image, const Expected& expected) {
  ++counts.rebuilt;
  if (auto finding = open(image, false)) return finding;
  const std::vector<KvPair> kept = place_->index();
  if (auto finding = open(without_index(image), false)) return finding;
  if (auto finding = compare(expected, true)) return Finding{"rebuilt_" + finding->oracle, finding->detail};
  const std::vector<KvPair> anew = place_->index();
  // Uploads that were committed and what is counted with them are known only while the log still says it.
  bool ended = false;
  for (const Model& model : expected.possible.models)
    for (const auto& [number, upload] : model.uploads) ended = ended || upload.made;
  std::map<std::string, std::string> left, right;
  const auto is_compared = [&](const KvPair& pair) {
    return !ended || (pair.key[0] != 'u' && pair.key[0] != 'p' && pair.key[0] != 'T' && pair.key[0] != 's');
  };
  // The last record that the kept one took in may be gone since.
  const auto value_of = [](const KvPair& pair) {
    constexpr std::size_t unstamped = 16;
    return pair.key == store::log_point_key() ? pair.value.substr(0, unstamped) : pair.value;
  };
  for (const KvPair& pair : kept)
    if (is_compared(pair)) left[pair.key] = value_of(pair);
  for (const KvPair& pair : anew)
    if (is_compared(pair)) right[pair.key] = value_of(pair);
  if (left == right) return std::nullopt;
  for (const auto& [key, value] : left)
    if (!right.contains(key) || right[key] != value)
      return Finding{"rebuilt_equal",
                     fmt::format("{} {}", readable(key), right.contains(key) ? "differs" : "is lost")};
  for (const auto& [key, value] : right)
    if (!left.contains(key)) return Finding{"rebuilt_equal", readable(key) + " is new"};
  return std::nullopt;
}

std::optional<Finding> Reopener::check_continued(const Image& image, const Expected& expected) {
  ++counts.continued;
  if (auto finding = open(image, true)) return finding;
  if (auto finding = compare(expected, false)) return finding;
  const auto stored = place_->put(universe_.contents[fresh]);
  if (!stored) return Finding{"continues", std::string(stored.error().context)};
  Expected next = expected;
  for (Model& model : next.possible.models) model.apply({Op::Act::put, fresh, 0, 0});
  // The power goes right after the answer: nothing that was not synced is kept, or all of it is.
  const Image least = place_->disk().durable(), most = place_->disk().view();
  place_->stop();
  for (const Image* left : {&least, &most}) {
    Image clean = *left;
    clean.prune([](std::uint64_t) { return false; });
    if (auto finding = open(clean, false)) return finding;
    if (auto finding = compare(next, false)) return Finding{"continued_" + finding->oracle, finding->detail};
  }
  return std::nullopt;
}

std::optional<Finding> Reopener::check_again(const Image& image, const Expected& expected) {
  place_->stop();
  place_->forget_cached(universe_.addresses);
  place_->disk().set_observer({});
  place_->disk().load(image);
  return crash_inside(
      place_->disk(),
      [&]() -> std::optional<Finding> {
        const auto opened = place_->open(false);
        if (!opened) return Finding{"opens", std::string(opened.error().context)};
        place_->stop();
        return std::nullopt;
      },
      [&](const Image& left) {
        ++counts.again;
        return check(left, expected);
      });
}

}  // namespace cairn::crash
