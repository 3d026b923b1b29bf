// Terminal: a verb's output. Data goes to stdout, talk to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"
#include "cairn/command.h"
#include "cairn/output.h"
#include "client/failure.h"

namespace cairn::cli {

class Terminal {
 public:
  // `patience`: with the reader of stderr.
  explicit Terminal(const Invocation& invocation, Patience patience = Patience::some);

  bool json() const noexcept { return json_; }
  bool quiet() const noexcept { return quiet_; }
  // Whether a person watches stderr and wants to see progress.
  bool shows_progress() const noexcept { return progress_; }

  // Data: one line. False when the reader has gone.
  bool line(std::string_view text) const;
  // Talk, as it is: to stderr.
  void message(std::string_view text) const noexcept;
  // Talk, one line: not with -q.
  void say(std::string_view text) const;
  void warn(std::string_view text) const;
  // The three lines of an error; empty ones are left out.
  void complain(std::string_view code, std::string_view what, std::string_view asked,
                std::string_view hint) const;
  // The same of a failure, with a hint where there is an obvious next step.
  void complain(const client::Failure& failure, std::string_view subject = {}) const;

 private:
  Patience patience_;
  mutable bool stalled_ = false;  // the reader of stderr has stopped reading
  bool json_, quiet_, progress_, color_;
};

// Control characters as \xNN: names and messages come from strangers and must not drive the terminal.
std::string printable(std::string_view text);
// `12.3 MiB`
std::string human_bytes(std::uint64_t bytes);
std::string json_string(std::string_view text);

// One line on a terminal: how much, how fast, how long still. Elsewhere it prints nothing.
class Progress {
 public:
  Progress(const Terminal& terminal, std::string_view verb) noexcept;
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void expect(std::uint64_t bytes) noexcept { total_ += bytes; }
  void moved(std::uint64_t bytes);
  // Takes the line away, so that something else can be said.
  void clear();

 private:
  void draw(Instant now);

  const Terminal& terminal_;
  bool shown_;
  std::string_view verb_;
  std::uint64_t total_ = 0, done_ = 0;
  Instant started_{}, drawn_{};
  bool begun_ = false, on_screen_ = false;
};

}  // namespace cairn::cli
