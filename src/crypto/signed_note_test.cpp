#include "crypto/signed_note.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "codec/base64.h"

namespace cairn::crypto {
namespace {

Ed25519Key key_number(unsigned char first) {
  std::array<std::byte, 32> seed{};
  for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<std::byte>(first + i);
  return Ed25519Key(seed);
}

const char* const known_key = "log.example/hills+f7de6bcc+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
const char* const known_text = "log.example/hills\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n";
const char* const known_note =
    "log.example/hills\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n\n"
    "\u2014 log.example/hills "
    "995rzENiIWG8JB2dUbdUWCSKo4HS1/YZtwXDreBYzNIyDSdrQO81T58yioSyjgLg8jKAik6ZjH+TycfxDUnPWLySvw4=\n";
const char* const blank_line_key = "H\u00F6he.example+eb1e1244+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
const char* const blank_line_note =
    "one line\n\nand, after a blank one, another: \u00FC\n\n"
    "\u2014 H\u00F6he.example "
    "6x4SRD8EovtGMOvn3U+e+9immuLJVAO+eIgZp0IKGh2/cAOdkTb0+7K39IDmWs9Ezx6cE89C5/7HERmd7DBI9g5m0wI=\n";

// Made with another implementation, from the seed 00 01 02 … 1f.
TEST(SignedNote, known_answers) {
  const Ed25519Key key = key_number(0);
  EXPECT_EQ(format_verifier_key({.name = "log.example/hills", .key = key.public_key()}), known_key);
  EXPECT_EQ(sign_note(known_text, "log.example/hills", key), known_note);
  EXPECT_EQ(sign_note("one line\n\nand, after a blank one, another: \u00FC\n", "H\u00F6he.example", key),
            blank_line_note);
  EXPECT_TRUE(is_signed_by(parse_note(known_note).value(), parse_verifier_key(known_key).value()));
  EXPECT_TRUE(is_signed_by(parse_note(blank_line_note).value(), parse_verifier_key(blank_line_key).value()));
  EXPECT_FALSE(is_signed_by(parse_note(known_note).value(), parse_verifier_key(blank_line_key).value()));
}

TEST(SignedNote, the_last_blank_line_ends_the_text) {
  const Note note = parse_note(blank_line_note).value();
  EXPECT_EQ(note.text, "one line\n\nand, after a blank one, another: \u00FC\n");
  ASSERT_EQ(note.signatures.size(), 1u);
  EXPECT_EQ(note.signatures[0].name, "H\u00F6he.example");
  EXPECT_EQ(note.signatures[0].key_id, 0xeb1e1244u);
  EXPECT_EQ(note.signatures[0].signature.size(), 64u);
  EXPECT_EQ(format_note(note), blank_line_note);
}

TEST(SignedNote, every_flipped_bit_is_refused) {
  const NoteVerifier verifier = parse_verifier_key(known_key).value();
  for (std::size_t bit = 0; bit < std::string_view(known_note).size() * 8; ++bit) {
    std::string other = known_note;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    const auto note = parse_note(other);
    EXPECT_FALSE(note && is_signed_by(*note, verifier)) << bit;
  }
}

Note note_with(std::vector<NoteSignature> signatures) {
  return {.text = known_text, .signatures = signatures};
}

TEST(SignedNote, unknown_keys_are_ignored) {
  const NoteVerifier verifier = parse_verifier_key(known_key).value();
  const NoteSignature own = parse_note(known_note)->signatures[0];
  NoteSignature same_id = own, same_name = own;
  same_id.name = "somebody.else";
  same_name.key_id ^= 1;
  same_id.signature = same_name.signature = "of another kind";
  EXPECT_TRUE(is_signed_by(note_with({same_id, own, same_name}), verifier));
  EXPECT_FALSE(is_signed_by(note_with({same_id, same_name}), verifier));
  EXPECT_FALSE(is_signed_by(note_with({}), verifier));
  EXPECT_TRUE(is_signed_by(note_with({own, own}), verifier));
}

TEST(SignedNote, a_wrong_signature_of_a_known_key_spoils_the_note) {
  const NoteVerifier verifier = parse_verifier_key(known_key).value();
  const NoteSignature own = parse_note(known_note)->signatures[0];
  NoteSignature wrong = own, cut = own, longer = own;
  wrong.signature[0] = static_cast<char>(wrong.signature[0] ^ 1);
  cut.signature.pop_back();
  longer.signature += '\0';
  for (const NoteSignature& bad : {wrong, cut, longer}) {
    EXPECT_FALSE(is_signed_by(note_with({bad}), verifier));
    EXPECT_FALSE(is_signed_by(note_with({own, bad}), verifier));
    EXPECT_FALSE(is_signed_by(note_with({bad, own}), verifier));
  }
}

TEST(SignedNote, malformed_notes_are_refused) {
  const std::string sign = "\u2014 name AAAAAAA=\n";  // a key id and one byte
  ASSERT_TRUE(parse_note("text\n\n" + sign));
  ASSERT_TRUE(parse_note("\n\n" + sign));
  const std::string bad[] = {
      "",
      "\n",
      "text\n",
      "text\n\n",
      sign,
      "\n" + sign,
      "text\n" + sign,
      "text\n\n" + sign + "\n",
      "text\n\n" + sign.substr(0, sign.size() - 1),
      "text\n\n" + sign + "more\n",
      "text\n\n- name AAAAAAA=\n",
      "text\n\n\u2014name AAAAAAA=\n",
      "text\n\n\u2014  AAAAAAA=\n",
      "text\n\n\u2014 name\n",
      "text\n\n\u2014 name \n",
      "text\n\n\u2014 name  AAAAAAA=\n",
      "text\n\n\u2014 name AAAAAAA= \n",
      "text\n\n\u2014 name AAAAAAA\n",
      "text\n\n\u2014 name AAAAAA==\n",
      "text\n\n\u2014 name AAAAAAB=\n",
      "text\n\n\u2014 na+me AAAAAAA=\n",
      "text\n\n\u2014 na\u00A0me AAAAAAA=\n",
      "text\n\n\u2014 na\u3000me AAAAAAA=\n",
      "te\txt\n\n" + sign,
      "text\r\n\r\n" + sign,
      "te\xFFxt\n\n" + sign,
      std::string("te\0xt\n\n", 7) + sign,
  };
  for (const std::string& bytes : bad) EXPECT_FALSE(parse_note(bytes)) << bytes;
}

TEST(SignedNote, size_and_signatures_are_bounded) {
  const std::string sign = "\u2014 name AAAAAAA=\n";
  std::string note = "text\n\n";
  for (std::size_t i = 0; i < note_signatures_max; ++i) note += sign;
  EXPECT_TRUE(parse_note(note));
  EXPECT_FALSE(parse_note(note + sign));
  const std::size_t room = note_size_max - sign.size() - 2;
  EXPECT_TRUE(parse_note(std::string(room, 'x') + "\n\n" + sign));
  EXPECT_FALSE(parse_note(std::string(room + 1, 'x') + "\n\n" + sign));
}

TEST(SignedNote, sixteen_long_signatures_beside_ours_do_not_hide_it) {
  const Ed25519Key key = key_number(0);
  const NoteVerifier verifier{.name = "log", .key = key.public_key()};
  Note note = parse_note(sign_note("log\n5\n", verifier.name, key)).value();
  for (std::size_t i = 1; i < note_signatures_max; ++i)
    note.signatures.push_back(
        {.name = "witness", .key_id = static_cast<std::uint32_t>(i), .signature = std::string(5 << 10, 'w')});
  const auto read = parse_note(format_note(note));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, note);
  EXPECT_TRUE(is_signed_by(*read, verifier));
  // As long as a note may be.
  std::string text(note_size_max - 200, 'x');
  text.back() = '\n';
  const auto long_one = parse_note(sign_note(text, verifier.name, key));
  ASSERT_TRUE(long_one);
  EXPECT_TRUE(is_signed_by(*long_one, verifier));
}

TEST(SignedNote, only_what_reads_as_a_note_is_signed) {
  const Ed25519Key key = key_number(0);
  EXPECT_DEATH(sign_note("no newline", "name", key), "is_note_text");
  EXPECT_DEATH(sign_note("bell \a\n", "name", key), "is_note_text");
  EXPECT_DEATH(sign_note("text\n", "na me", key), "is_note_name");
  EXPECT_DEATH(sign_note(std::string(note_size_max, '\n'), "name", key), "note_size_max");
}

TEST(SignedNote, names_have_no_spaces_and_no_plus) {
  for (const char* name : {"a", "log.example/abc", "H\u00F6he", "a=b", "\u2014", "\U0001F5FB"})
    EXPECT_TRUE(is_note_name(name)) << name;
  for (const char* name : {"", " ", "a b", "a+b", "a\nb", "a\tb", "a\u0085", "\u00A0", "\u1680", "\u2000",
                           "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000", "\x80"})
    EXPECT_FALSE(is_note_name(name)) << name;
}

RC_GTEST_PROP(SignedNote, what_was_signed_is_read_back, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', ' ', '+', '-', '\n')) + '\n';
  const auto first = *rc::gen::arbitrary<unsigned char>();
  const Ed25519Key key = key_number(first);
  const NoteVerifier verifier{.name = "n", .key = key.public_key()};
  const std::string bytes = sign_note(text, verifier.name, key);
  const auto note = parse_note(bytes);
  RC_ASSERT(note.has_value() && note->text == text && format_note(*note) == bytes);
  RC_ASSERT(is_signed_by(*note, verifier));
  const NoteVerifier other{.name = "n",
                           .key = key_number(static_cast<unsigned char>(first + 1)).public_key()};
  RC_ASSERT(!is_signed_by(*note, other));
  RC_ASSERT(parse_verifier_key(format_verifier_key(verifier)).value() == verifier);
}

TEST(VerifierKey, every_other_spelling_is_refused) {
  const std::string key = "AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
  ASSERT_TRUE(parse_verifier_key("log.example/hills+f7de6bcc+" + key));
  const std::string bad[] = {
      "",
      "log.example/hills",
      "log.example/hills+f7de6bcc",
      "log.example/hills+f7de6bcc+",
      "+f7de6bcc+" + key,
      "log.example/hill+f7de6bcc+" + key,
      "log.example/hills+f7de6bcd+" + key,
      "log.example/hills+F7DE6BCC+" + key,
      "log.example/hills+0f7de6bcc+" + key,
      "log.example/hills++" + key,
      "log.example/hills+f7de6bcc+" + key + "\n",
      "log.example/hills+f7de6bcc+" + key.substr(4),
      "log.example/hills+f7de6bcc+" + key + "AAAA",
      " log.example/hills+f7de6bcc+" + key,
  };
  for (const std::string& text : bad) EXPECT_FALSE(parse_verifier_key(text)) << text;
  // Another kind of signature, with the id of the Ed25519 key.
  EXPECT_FALSE(parse_verifier_key("log.example/hills+f7de6bcc+BA" + key.substr(2)));
}

TEST(Checkpoint, known_answer) {
  const Checkpoint checkpoint = parse_checkpoint(known_text).value();
  EXPECT_EQ(checkpoint.origin, "log.example/hills");
  EXPECT_EQ(checkpoint.size, 8u);
  EXPECT_EQ(format_hex(checkpoint.root), "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328");
  EXPECT_TRUE(checkpoint.extensions.empty());
  EXPECT_EQ(format_checkpoint(checkpoint), known_text);
}

TEST(Checkpoint, extensions_and_sizes_round_trip) {
  for (std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{10}, ~std::uint64_t{0}}) {
    const Checkpoint checkpoint{
        .origin = "any words", .size = size, .root = empty_root(), .extensions = {"one", " two "}};
    EXPECT_EQ(parse_checkpoint(format_checkpoint(checkpoint)).value(), checkpoint);
    EXPECT_TRUE(is_note_text(format_checkpoint(checkpoint)));
  }
}

TEST(Checkpoint, every_other_spelling_is_refused) {
  const std::string root = "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=";
  ASSERT_TRUE(parse_checkpoint("log\n8\n" + root + "\n"));
  const std::string bad[] = {
      "",
      "\n",
      "log\n",
      "log\n8\n",
      "\n8\n" + root + "\n",
      "log\n8\n" + root,
      "log\n\n" + root + "\n",
      "log\n08\n" + root + "\n",
      "log\n00\n" + root + "\n",
      "log\n+8\n" + root + "\n",
      "log\n-8\n" + root + "\n",
      "log\n 8\n" + root + "\n",
      "log\n8 \n" + root + "\n",
      "log\n0x8\n" + root + "\n",
      "log\n18446744073709551616\n" + root + "\n",
      "log\n8\n" + root.substr(0, 43) + "\n",
      "log\n8\n" + root + "=\n",
      "log\n8\n" + root + " \n",
      "log\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyh=\n",
      "log\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQw==\n",
      "log\n8\n\n",
      "log\n8\n" + root + "\n\n",
      "log\n8\n" + root + "\n\nextension\n",
      "log\n8\n" + root + "\nextension",
      "log\r\n8\r\n" + root + "\r\n",
      "l\xFFog\n8\n" + root + "\n",
  };
  for (const std::string& text : bad) EXPECT_FALSE(parse_checkpoint(text)) << text;
}

TEST(Checkpoint, lines_that_would_read_otherwise_are_not_written) {
  Checkpoint checkpoint{.origin = "log", .size = 1, .root = empty_root(), .extensions = {}};
  checkpoint.extensions = {""};
  EXPECT_DEATH(format_checkpoint(checkpoint), "is_line");
  checkpoint.extensions = {"a\nb"};
  EXPECT_DEATH(format_checkpoint(checkpoint), "is_line");
  checkpoint.extensions.clear();
  checkpoint.origin = "two\nlines";
  EXPECT_DEATH(format_checkpoint(checkpoint), "is_line");
}

}  // namespace
}  // namespace cairn::crypto
