// B099: every pair of options is accepted, or refused by a rule that is about that pair.
#include <gtest/gtest.h>

#include "spec/config/testing.h"

namespace muster::spec {
namespace {

struct Option {
  const Field* field;
  std::string setting;
};

std::vector<std::string> values_to_try(const Field& field) {
  std::vector<std::string> values;
  Job job;
  const bool is_list = to_json(field, job).is_array();
  for (std::string_view choice : choices_of(field.domain))
    if (!is_list) values.emplace_back(choice);
  const size_t kind = field.in(job).index();
  const bool is_whole = std::holds_alternative<int64_t*>(field.in(job));
  if (std::holds_alternative<bool*>(field.in(job))) return {"true", "false"};
  if (is_whole || std::holds_alternative<uint64_t*>(field.in(job))) return {"1", "4"};
  if (std::holds_alternative<double*>(field.in(job))) return {"0.0", "0.5"};
  if (values.empty() && kind == 0) values.push_back("none");
  return values;
}

// All options but the model's sizes, which are data and not options.
std::vector<Option> options() {
  std::vector<Option> all;
  for (const Field& field : fields())
    if (field.in && (field.section != "model" || field.key == "family" ||
                     field.key == "tie_word_embeddings" || field.key == "attention_bias"))
      for (const std::string& value : values_to_try(field))
        all.push_back({&field, field.name() + "=" + value});
  return all;
}

// The problem names the option's key or its value.
bool is_about(const Problem& problem, const Option& option) {
  const std::string value = option.setting.substr(option.setting.find('=') + 1), text = to_string(problem);
  return text.find(option.field->key) != std::string::npos || text.find(value) != std::string::npos;
}

// What a job says to these settings: nothing, and it reads back the same; or problems.
std::vector<Problem> answer(const std::vector<std::string>& settings) {
  return problems_in([&] {
    const Job job = small_job("", settings);
    EXPECT_EQ(values_of(parse_job(effective_toml(job), "job.toml")), values_of(job));
  });
}

TEST(Pairs, B099_EachIsAcceptedOrRefusedByARuleThatApplies) {
  const std::vector<Option> all = options();
  ASSERT_GT(all.size(), 100u);
  std::vector<bool> right_alone;
  for (const Option& option : all) right_alone.push_back(answer({option.setting}).empty());
  size_t accepted = 0, refused = 0;
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a + 1; b < all.size(); ++b) {
      if (all[a].field == all[b].field) continue;
      const auto problems = answer({all[a].setting, all[b].setting});
      ++(problems.empty() ? accepted : refused);
      for (const Problem& problem : problems) {
        const bool about_a = is_about(problem, all[a]), about_b = is_about(problem, all[b]);
        // Where each is right alone, only a rule on both can refuse them together.
        const bool applies = right_alone[a] && right_alone[b] ? about_a && about_b : about_a || about_b;
        EXPECT_TRUE(applies) << all[a].setting << " with " << all[b].setting << ": " << to_string(problem);
      }
    }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(Pairs, B099_ARuleOfAnotherBranchStopsNothing) {
  // A dense model with the sequence split off: nothing about experts may be said.
  for (const Problem& problem : problems_of("", {"layout.tensor=2", "layout.sequence_parallel=false"}))
    EXPECT_EQ(problem.rule.find("expert"), std::string::npos) << problem.rule;
}

}  // namespace
}  // namespace muster::spec
