#include "registry_dialogue.h"

#include <charconv>

#include "base/address.h"
#include "codec/base64.h"
#include "format/signed_commit.h"

using namespace cairn;

std::string_view between(std::string_view text, std::string_view before, char end) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  const std::size_t stop = text.find(end);
  return stop == std::string_view::npos ? std::string_view{} : text.substr(0, stop);
}

std::uint64_t number_after(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  std::uint64_t value = 0;
  if (at != std::string_view::npos)
    std::from_chars(text.data() + at + before.size(), text.data() + text.size(), value);
  return value;
}

namespace {

constexpr std::string_view etcd_key = "cmVnaXN0cnktaGVhZA==";  // registry-head

void write_request(const Play& play, std::string_view method, std::string_view path, std::string_view body,
                   std::string& out) {
  out.append(method).append(" ").append(path).append(" HTTP/1.1\r\nHost: ").append(play.host).append("\r\n");
  if (method == "POST") {
    if (!play.bearer.empty()) out.append("Authorization: ").append(play.bearer).append("\r\n");
    out.append("Content-Type: application/json\r\nContent-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n");
  }
  out.append("\r\n").append(body);
}

class HeadRead final : public Dialogue {
 public:
  void ask(Play& play, std::string& out) override { write_request(play, "GET", "/registry/head", {}, out); }
  Heard hear(Play&, int status, std::string_view body) override {
    return status == 200 && body.starts_with(R"({"version":)") ? Heard::counted : Heard::wrong;
  }
};

// Propose, approve and commit; the parts that both registry modes are made of.
class Cycle : public Dialogue {
 public:
  void ask(Play& play, std::string& out) override {
    if (at_ == 0) {
      write_request(play, "POST", "/registry/proposals", distinct(play), out);
    } else if (at_ <= play.quorum) {
      write_request(play, "POST", "/registry/approvals/" + id_, approval(play, at_ - 1), out);
    } else {
      write_request(play, "POST", "/registry/commit/" + id_, {}, out);
    }
  }
  bool at_effect() const override { return ready_; }

 protected:
  // True where the answer to a proposal or an approval is a good one; then the next step is due.
  bool take_step(Play& play, int status, std::string_view body) {
    if (at_ == 0) {
      id_ = between(body, R"("proposal_id":")", '"');
      const auto hash = parse_address(between(body, R"("payload_b3":")", '"'));
      if (status != 202 || id_.empty() || !hash) return false;
      payload_b3_ = *hash;
    } else if (status != 200) {
      return false;
    }
    ready_ = ++at_ == play.quorum + 1;
    return true;
  }
  static bool lost_race(int status, std::string_view body) {
    return status == 409 && body.find("chain_mismatch") != std::string_view::npos;
  }
  void restart() {
    at_ = 0;
    ready_ = false;
  }
  std::size_t at() const noexcept { return at_; }
  const std::string& id() const noexcept { return id_; }
  std::string approval(const Play& play, std::size_t signer) const {
    const auto& [name, key] = play.signers[signer];
    return R"({"signer_id":")" + name + R"(","algo":"ed25519","sig":")" +
           codec::encode_base64(key.sign(format::approval_message(payload_b3_))) +
           R"(","signed_at":"2026-01-01T00:00:00Z"})";
  }

 private:
  static std::string distinct(Play& play) {
    std::string body = play.proposal;
    const std::size_t mark = body.find(distinct_mark);
    ++play.distinct;
    for (std::size_t i = 0; mark != std::string::npos && i < distinct_mark.size(); ++i)
      body[mark + i] = "0123456789abcdef"[play.distinct >> (4 * (distinct_mark.size() - 1 - i)) & 15];
    return body;
  }
  std::size_t at_ = 0;  // 0: to be proposed; up to the quorum: to be approved; then to be committed
  bool ready_ = false;
  std::string id_;
  Address payload_b3_;
};

// A proposal, then the commit with the approvals that it needs.
class Commits final : public Cycle {
 public:
  void ask(Play& play, std::string& out) override {
    if (at() == 0) return Cycle::ask(play, out);
    std::string body = R"({"approvals":[)";
    for (std::size_t i = 0; i < play.quorum; ++i) body.append(i == 0 ? "" : ",").append(approval(play, i));
    write_request(play, "POST", "/registry/commit/" + id(), body.append("]}"), out);
  }
  bool at_effect() const override { return at() > 0; }
  Heard hear(Play& play, int status, std::string_view body) override {
    if (at() > 0 && status == 201) {
      restart();
      return Heard::counted;
    }
    if (lost_race(status, body)) {
      restart();
      return Heard::refused;
    }
    return at() == 0 && take_step(play, status, body) ? Heard::on_the_way : Heard::wrong;
  }
};

// Each proposal and each approval counts. Now and then one is committed: pending ones are bounded.
class Proposals final : public Cycle {
 public:
  Heard hear(Play& play, int status, std::string_view body) override {
    if (at() > play.quorum) {
      restart();
      play.uncommitted = 0;
      play.committing = false;
      return status == 201 ? Heard::on_the_way : Heard::wrong;
    }
    if (lost_race(status, body)) {
      restart();
      return Heard::refused;
    }
    if (at() == 0) ++play.uncommitted;
    if (!take_step(play, status, body)) return Heard::wrong;
    if (at() > play.quorum) {
      if (play.committing || play.uncommitted < play.commit_every)
        restart();
      else
        play.committing = true;
    }
    return Heard::counted;
  }
};

// --- etcd

std::string value_of(Play& play) {
  std::string value(play.value_bytes, 'v');
  const std::string number = std::to_string(++play.distinct);
  value.replace(0, number.size(), number);
  return codec::encode_base64(as_bytes(value));
}

class EtcdRange final : public Dialogue {
 public:
  void ask(Play& play, std::string& out) override {
    write_request(play, "POST", "/v3/kv/range", R"({"key":")" + std::string(etcd_key) + R"("})", out);
  }
  Heard hear(Play&, int status, std::string_view body) override {
    return status == 200 && body.find(R"("kvs":[)") != std::string_view::npos ? Heard::counted : Heard::wrong;
  }
};

class EtcdPut final : public Dialogue {
 public:
  void ask(Play& play, std::string& out) override {
    const std::string body =
        R"({"key":")" + std::string(etcd_key) + R"(","value":")" + value_of(play) + R"("})";
    write_request(play, "POST", "/v3/kv/put", body, out);
  }
  Heard hear(Play&, int status, std::string_view body) override {
    return status == 200 && number_after(body, R"("revision":")") > 0 ? Heard::counted : Heard::wrong;
  }
};

// One key, replaced where its revision is still the one last seen. Who is too late learns the revision from
// the answer.
class EtcdSwap final : public Dialogue {
 public:
  void ask(Play& play, std::string& out) override {
    const std::string key(etcd_key);
    const std::string body = R"({"compare":[{"key":")" + key + R"(","target":"MOD","mod_revision":")" +
                             std::to_string(revision_) + R"("}],"success":[{"request_put":{"key":")" + key +
                             R"(","value":")" + value_of(play) +
                             R"("}}],"failure":[{"request_range":{"key":")" + key + R"("}}]})";
    write_request(play, "POST", "/v3/kv/txn", body, out);
  }
  Heard hear(Play&, int status, std::string_view body) override {
    if (status != 200) return Heard::wrong;
    const bool swapped = body.find(R"("succeeded":true)") != std::string_view::npos;
    const std::uint64_t seen =
        swapped ? number_after(body, R"("revision":")") : number_after(body, R"("mod_revision":")");
    if (seen == 0 || seen == revision_) return Heard::wrong;
    revision_ = seen;
    return swapped ? Heard::counted : Heard::refused;
  }

 private:
  std::uint64_t revision_ = 0;
};

}  // namespace

std::unique_ptr<Dialogue> make_dialogue(std::string_view mode) {
  if (mode == "head") return std::make_unique<HeadRead>();
  if (mode == "commits") return std::make_unique<Commits>();
  if (mode == "proposals") return std::make_unique<Proposals>();
  if (mode == "etcd-range") return std::make_unique<EtcdRange>();
  if (mode == "etcd-put") return std::make_unique<EtcdPut>();
  if (mode == "etcd-swap") return std::make_unique<EtcdSwap>();
  return nullptr;
}
