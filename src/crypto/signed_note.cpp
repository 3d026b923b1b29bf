#include "crypto/signed_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/base64.h"
#include "crypto/sha256.h"

namespace cairn::crypto {
namespace {

constexpr std::string_view signature_mark = "\u2014 ";
constexpr char ed25519_kind = 1;
constexpr std::size_t key_id_size = 4;

// The characters of Unicode's White_Space property, above the control characters.
constexpr std::string_view spaces[] = {
    " ",      "\u0085", "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
    "\u2006", "\u2007", "\u2008", "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000",
};

std::unexpected<Error> malformed(const char* what) noexcept {
  return fail(ErrorCode::malformed, what, Side::client);
}

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20; }

bool is_line(std::string_view text) noexcept {
  return !text.empty() && is_utf8(text) && std::ranges::none_of(text, is_control);
}

// Takes the first line, with its newline, off `rest`. Text without a newline is one line.
std::string_view take_line(std::string_view& rest) noexcept {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  return line;
}

std::string encode_key_id(std::uint32_t id) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(id >> shift & 0xFF);
  return bytes;
}

std::uint32_t decode_key_id(std::string_view bytes) noexcept {
  std::uint32_t id = 0;
  for (char c : bytes.substr(0, key_id_size)) id = id << 8 | static_cast<unsigned char>(c);
  return id;
}

std::string tagged_key(const Ed25519PublicKey& key) { return ed25519_kind + std::string(as_text(key)); }

Result<NoteSignature> parse_signature(std::string_view line) {
  if (!line.starts_with(signature_mark)) return malformed("note: not a signature line");
  line.remove_prefix(signature_mark.size());
  const std::size_t space = line.find(' ');
  if (space == line.npos) return malformed("note: not a signature line");
  NoteSignature signature;
  signature.name = line.substr(0, space);
  if (!is_note_name(signature.name)) return malformed("note: not a key's name");
  TRY(const std::string bytes, codec::decode_base64(line.substr(space + 1)));
  if (bytes.size() <= key_id_size) return malformed("note: empty signature");
  signature.key_id = decode_key_id(bytes);
  signature.signature = bytes.substr(key_id_size);
  return signature;
}

}  // namespace

std::uint32_t NoteVerifier::key_id() const {
  return decode_key_id(as_text(sha256(as_bytes(name + '\n' + tagged_key(key)))));
}

bool is_note_name(std::string_view name) noexcept {
  // In well-formed UTF-8 a byte search finds only whole characters.
  return is_line(name) && !name.contains('+') &&
         std::ranges::none_of(spaces, [&](std::string_view space) { return name.contains(space); });
}

bool is_note_text(std::string_view text) noexcept {
  return text.ends_with('\n') && is_utf8(text) &&
         std::ranges::none_of(text, [](char c) { return is_control(c) && c != '\n'; });
}

std::string format_verifier_key(const NoteVerifier& verifier) {
  CHECK(is_note_name(verifier.name));
  return fmt::format("{}+{:08x}+{}", verifier.name, verifier.key_id(),
                     codec::encode_base64(as_bytes(tagged_key(verifier.key))));
}

Result<NoteVerifier> parse_verifier_key(std::string_view text) {
  const std::size_t plus = text.find('+');
  if (plus == text.npos) return malformed("verifier key: no key id");
  NoteVerifier verifier;
  verifier.name = text.substr(0, plus);
  if (!is_note_name(verifier.name)) return malformed("verifier key: not a key's name");
  const std::size_t second = text.find('+', plus + 1);
  if (second == text.npos) return malformed("verifier key: no key");
  TRY(const std::string key, codec::decode_base64(text.substr(second + 1)));
  if (key.size() != 1 + verifier.key.size() || key[0] != ed25519_kind)
    return malformed("verifier key: not an Ed25519 key");
  std::ranges::copy(as_bytes(key).subspan(1), verifier.key.begin());
  if (text.substr(plus + 1, second - plus - 1) != fmt::format("{:08x}", verifier.key_id()))
    return malformed("verifier key: not this key's id");
  return verifier;
}

std::string sign_note(std::string_view text, std::string_view name, const Ed25519Key& key) {
  const Ed25519Signature signature = key.sign(as_bytes(text));
  const NoteVerifier verifier{.name = std::string(name), .key = key.public_key()};
  return format_note({.text = std::string(text),
                      .signatures = {{.name = verifier.name,
                                      .key_id = verifier.key_id(),
                                      .signature = std::string(as_text(signature))}}});
}

std::string format_note(const Note& note) {
  CHECK(is_note_text(note.text));
  CHECK(!note.signatures.empty() && note.signatures.size() <= note_signatures_max);
  std::string bytes = note.text + '\n';
  for (const NoteSignature& signature : note.signatures) {
    CHECK(is_note_name(signature.name) && !signature.signature.empty());
    bytes += signature_mark;
    bytes += signature.name;
    bytes += ' ';
    bytes += codec::encode_base64(as_bytes(encode_key_id(signature.key_id) + signature.signature));
    bytes += '\n';
  }
  CHECK(bytes.size() <= note_size_max);
  return bytes;
}

Result<Note> parse_note(std::string_view bytes) {
  if (bytes.size() > note_size_max) return malformed("note: too long");
  if (!is_note_text(bytes)) return malformed("note: not text");
  // The text may have blank lines; the last one ends it.
  const std::size_t end = bytes.rfind("\n\n");
  if (end == bytes.npos) return malformed("note: no signatures");
  Note note;
  note.text = bytes.substr(0, end + 1);
  std::string_view rest = bytes.substr(end + 2);
  if (rest.empty()) return malformed("note: no signatures");
  while (!rest.empty()) {
    if (note.signatures.size() == note_signatures_max) return malformed("note: too many signatures");
    TRY(NoteSignature signature, parse_signature(take_line(rest)));
    note.signatures.push_back(std::move(signature));
  }
  return note;
}

bool is_signed_by(const Note& note, const NoteVerifier& verifier) {
  const std::uint32_t id = verifier.key_id();
  bool found = false;
  for (const NoteSignature& line : note.signatures) {
    if (line.key_id != id || line.name != verifier.name) continue;
    Ed25519Signature signature;
    if (line.signature.size() != signature.size()) return false;
    std::ranges::copy(as_bytes(line.signature), signature.begin());
    if (!verify_ed25519(verifier.key, as_bytes(note.text), signature)) return false;
    found = true;
  }
  return found;
}

std::string format_checkpoint(const Checkpoint& checkpoint) {
  CHECK(is_line(checkpoint.origin) && std::ranges::all_of(checkpoint.extensions, is_line));
  std::string text =
      fmt::format("{}\n{}\n{}\n", checkpoint.origin, checkpoint.size, codec::encode_base64(checkpoint.root));
  for (const std::string& extension : checkpoint.extensions) text += extension + '\n';
  return text;
}

Result<Checkpoint> parse_checkpoint(std::string_view text) {
  if (!is_note_text(text)) return malformed("checkpoint: not text");
  Checkpoint checkpoint;
  checkpoint.origin = take_line(text);
  if (checkpoint.origin.empty()) return malformed("checkpoint: no origin");

  const std::string_view size = take_line(text);
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), checkpoint.size);
  if (error != std::errc() || end != size.data() + size.size() || (size.size() > 1 && size.starts_with('0')))
    return malformed("checkpoint: not a size");

  TRY(const std::string root, codec::decode_base64(take_line(text)));
  if (root.size() != checkpoint.root.size()) return malformed("checkpoint: not a root");
  std::ranges::copy(as_bytes(root), checkpoint.root.begin());

  while (!text.empty()) {
    checkpoint.extensions.emplace_back(take_line(text));
    if (checkpoint.extensions.back().empty()) return malformed("checkpoint: blank extension line");
  }
  return checkpoint;
}

}  // namespace cairn::crypto
