// Signed notes (C2SP signed-note) and the checkpoints of a log as their text (C2SP tlog-checkpoint).
//
// A note is a text, a blank line, and a line per signature:
//   — <name> <base64 of the 4-byte key id and the signature>
// Its text is untrusted until is_signed_by() has verified a signature.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "crypto/ed25519.h"
#include "crypto/merkle.h"

namespace cairn::crypto {

// The size that C2SP asks readers to accept at least. Witnesses sign with keys of other kinds, whose
// signatures are long.
inline constexpr std::size_t note_size_max = std::size_t{1} << 20;
inline constexpr std::size_t note_signatures_max = 16;

// A key and the name it signs under.
struct NoteVerifier {
  std::string name;
  Ed25519PublicKey key{};

  // The first bytes of a hash over name, kind of signature and key. Only a hint: anyone can make a key with
  // the same id.
  std::uint32_t key_id() const;
  friend bool operator==(const NoteVerifier&, const NoteVerifier&) = default;
};

// A signature of any kind: those of unknown keys, with unknown algorithms, are carried along.
struct NoteSignature {
  std::string name;
  std::uint32_t key_id = 0;
  std::string signature;  // raw bytes

  friend bool operator==(const NoteSignature&, const NoteSignature&) = default;
};

struct Note {
  std::string text;  // with the newline at its end
  std::vector<NoteSignature> signatures;

  friend bool operator==(const Note&, const Note&) = default;
};

// Not empty, UTF-8, without Unicode's spaces, control characters and '+'.
bool is_note_name(std::string_view name) noexcept;
// Ends with a newline, UTF-8, no other control character below U+0020.
bool is_note_text(std::string_view text) noexcept;

// "name+1234abcd+base64", the form in which a verifier's key is handed out. Precondition: is_note_name(name).
std::string format_verifier_key(const NoteVerifier& verifier);
// Accepts only the output of format_verifier_key(); an id that does not match the key is malformed.
Result<NoteVerifier> parse_verifier_key(std::string_view text);

// Precondition: is_note_text(text), is_note_name(name), the note within note_size_max.
std::string sign_note(std::string_view text, std::string_view name, const Ed25519Key& key);

// Accepts one spelling of a note: format_note() gives back the same bytes. No signature is verified.
Result<Note> parse_note(std::string_view bytes);
std::string format_note(const Note& note);

// Whether at least one signature has the verifier's name and key id, and every such signature verifies.
bool is_signed_by(const Note& note, const NoteVerifier& verifier);

// The statement that a log signs: its first `size` entries have this root.
struct Checkpoint {
  std::string origin;  // the log's name
  std::uint64_t size = 0;
  MerkleHash root{};
  std::vector<std::string> extensions;  // lines without meaning to the log

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// The text of a note. Precondition: origin and extensions are lines of a note's text, none of them empty.
std::string format_checkpoint(const Checkpoint& checkpoint);
// Accepts only the output of format_checkpoint().
Result<Checkpoint> parse_checkpoint(std::string_view text);

}  // namespace cairn::crypto
