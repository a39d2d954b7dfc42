#include "schedule/action.h"

#include <sstream>

#include "base/error.h"

namespace muster::schedule {
namespace {

constexpr char kLetters[] = {'F', 'B', 'R', 'U'};

bool has_micro_batch(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::backward;
}

Action parse_word(const std::string& word) {
  Action action;
  for (int kind = 0; kind < 4; ++kind)
    if (word[0] == kLetters[kind]) {
      action.kind = static_cast<ActionKind>(kind);
      if (has_micro_batch(action.kind)) action.micro_batch = std::stoi(word.substr(1));
      action.last_backward = word.back() == '*';
      return action;
    }
  throw Bug("no such action: " + word);
}

}  // namespace

const char* to_string(ActionKind kind) {
  static constexpr const char* names[] = {"forward", "backward", "reduce_finish", "update"};
  return names[static_cast<int>(kind)];
}

std::vector<Action> single_stage(int64_t micro_batches) {
  std::vector<Action> actions;
  for (int32_t at = 0; at < micro_batches; ++at) {
    actions.push_back({ActionKind::forward, at});
    actions.push_back({ActionKind::backward, at, 0, at + 1 == micro_batches});
  }
  actions.push_back({ActionKind::reduce_finish});
  actions.push_back({ActionKind::update});
  return actions;
}

std::string to_text(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += kLetters[static_cast<int>(action.kind)];
    if (has_micro_batch(action.kind)) text += std::to_string(action.micro_batch);
    if (action.last_backward) text += '*';
  }
  return text;
}

std::vector<Action> from_text(const std::string& text) {
  std::vector<Action> actions;
  std::istringstream words(text);
  for (std::string word; words >> word;) actions.push_back(parse_word(word));
  return actions;
}

void validate(const std::vector<Action>& actions, int64_t micro_batches) {
  std::vector<int> forwards(static_cast<size_t>(micro_batches)), backwards(forwards);
  int64_t backwards_left = micro_batches;
  size_t closing = 0;
  for (const Action& action : actions) {
    if (!has_micro_batch(action.kind)) {
      const auto wanted = closing == 0 ? ActionKind::reduce_finish : ActionKind::update;
      MUSTER_CHECK(closing < 2 && action.kind == wanted && backwards_left == 0, "{} out of place in {}",
                   to_string(action.kind), to_text(actions));
      ++closing;
      continue;
    }
    const auto at = static_cast<size_t>(action.micro_batch);
    MUSTER_CHECK(closing == 0 && action.micro_batch >= 0 && action.micro_batch < micro_batches,
                 "micro-batch {} of {} in {}", action.micro_batch, micro_batches, to_text(actions));
    if (action.kind == ActionKind::forward) {
      MUSTER_CHECK(forwards[at]++ == 0, "two forwards of micro-batch {}", at);
    } else {
      MUSTER_CHECK(forwards[at] == 1 && backwards[at]++ == 0, "backward of micro-batch {} out of place", at);
      MUSTER_CHECK(action.last_backward == (--backwards_left == 0),
                   "the last backward is not the marked one in {}", to_text(actions));
    }
  }
  MUSTER_CHECK(closing == 2, "{} does not end in R U", to_text(actions));
}

}  // namespace muster::schedule
