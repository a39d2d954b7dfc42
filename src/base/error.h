// The three kinds of error: the user's (all found at once, before anything starts), the world's (a peer,
// a link, a disk, data), and bugs.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace muster {

// One thing wrong with a request: which field, what it held, the rule it breaks, what to do.
struct Problem {
  std::string field;
  std::string value;
  std::string rule;
  std::string remedy;
};

// "field = value: rule; remedy"
std::string to_string(const Problem& problem);

// A request that cannot be. Carries every problem found; the program exits with 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::vector<Problem> problems);
  explicit UserError(Problem problem) : UserError(std::vector<Problem>{std::move(problem)}) {}
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

// Gathers problems, so that a person sees them all together.
class Problems {
 public:
  void add(std::string field, std::string value, std::string rule, std::string remedy);
  void add(const UserError& error);
  // Runs `check`; a UserError that it throws is kept instead of thrown on.
  template <class Check>
  void gather(Check&& check) {
    try {
      check();
    } catch (const UserError& error) {
      add(error);
    }
  }
  bool empty() const { return list_.empty(); }
  const std::vector<Problem>& list() const { return list_; }
  void throw_if_any() const;

 private:
  std::vector<Problem> list_;
};

// What the world did to a run. `peer_lost` and `timeout` are consequences: the first cause is elsewhere.
// `fenced`: another process has taken this one's place.
class WorldError : public std::runtime_error {
 public:
  enum class Kind { peer_lost, timeout, disk, data, mismatch, device, fenced };
  WorldError(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }
  bool is_consequence() const { return kind_ == Kind::peer_lost || kind_ == Kind::timeout; }

 private:
  Kind kind_;
};

// A broken promise inside the program.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_bug(const char* expression, const char* file, int line, const std::string& detail);

}  // namespace muster

// A promise that our own code makes. `...` is a fmt format and its arguments; say both sides.
#define MUSTER_CHECK(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::muster::throw_bug(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
