// Notes, checkpoints and verifier keys of a stranger: what is accepted is written back as the very same
// bytes, and only what the key's owner signed is signed.
#include <algorithm>

#include "base/check.h"
#include "crypto/signed_note.h"
#include "fuzz/splits.h"

namespace {

using namespace cairn;
using namespace cairn::crypto;

const Ed25519Key& log_key() {
  static const Ed25519Key key(std::array<std::byte, 32>{});
  return key;
}

std::string true_signature(std::string_view text) {
  return std::string(as_text(log_key().sign(as_bytes(text))));
}

bool is_by(const NoteSignature& signature, const NoteVerifier& verifier) {
  return signature.name == verifier.name && signature.key_id == verifier.key_id();
}

bool has_true_signature(const Note& note, const NoteVerifier& verifier) {
  return std::ranges::any_of(note.signatures, [&](const NoteSignature& signature) {
    return is_by(signature, verifier) && signature.signature == true_signature(note.text);
  });
}

void check_note(std::string_view input) {
  const auto note = parse_note(input);
  if (!note) {
    CHECK(note.error().code == ErrorCode::malformed);
    return;
  }
  CHECK(is_note_text(note->text));
  CHECK(!note->signatures.empty() && note->signatures.size() <= note_signatures_max);
  CHECK(format_note(*note) == input);
  // The key is the first signer's as far as its name goes.
  const NoteVerifier first{.name = note->signatures[0].name, .key = log_key().public_key()};
  if (is_signed_by(*note, first)) CHECK(has_true_signature(*note, first));

  // A signature added by the owner counts, unless a false one in the same name is there already.
  const NoteVerifier verifier{.name = "log.example", .key = log_key().public_key()};
  bool forged = false;
  for (const NoteSignature& signature : note->signatures)
    forged = forged || (is_by(signature, verifier) && signature.signature != true_signature(note->text));
  Note more = *note;
  more.signatures.push_back(
      {.name = verifier.name, .key_id = verifier.key_id(), .signature = true_signature(note->text)});
  CHECK(is_signed_by(more, verifier) != forged);
  more.text += '\n';
  CHECK(!is_signed_by(more, verifier));
}

void check_checkpoint(std::string_view input) {
  const auto checkpoint = parse_checkpoint(input);
  if (!checkpoint) {
    CHECK(checkpoint.error().code == ErrorCode::malformed);
    return;
  }
  CHECK(is_note_text(input));
  CHECK(format_checkpoint(*checkpoint) == input);
}

void check_key(std::string_view input) {
  const auto verifier = parse_verifier_key(input);
  if (!verifier) return;
  CHECK(format_verifier_key(*verifier) == input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Exact input({reinterpret_cast<const char*>(data), size});
  check_note(input.view());
  check_checkpoint(input.view());
  check_key(input.view());
  // The text of a note is where a checkpoint is found.
  if (const auto note = parse_note(input.view())) check_checkpoint(note->text);
  return 0;
}
