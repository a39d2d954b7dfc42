// Bad requests are refused whole, with everything wrong in them; good ones answer in both forms.
#include "estimate/kinds/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "base/json.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/numbers.h"

namespace muster::estimate {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& words) {
  try {
    run(words);
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(Requests, AllFaultsComeTogether) {
  EXPECT_THAT(refusal({"memory", "--preset", "llama2-70x", "--gpus", "0", "--memory", "192 Gib",
                       "--recompute", "ful", "--micro-bach", "1", "--reserve", "-1 GiB", "--bytes", "2,2"}),
              AllOf(HasSubstr("llama2-70b"), HasSubstr("--gpus = 0"), HasSubstr("--memory = 192 Gib"),
                    HasSubstr("did you mean full?"), HasSubstr("did you mean --micro-batch?"),
                    HasSubstr("--reserve = -1"), HasSubstr("must be three")));
  EXPECT_THAT(
      refusal({"collective", "--gpus", "1", "--bw", "-50", "--algorithm", "tree", "--op", "p2p", "--step-ms",
               "3"}),
      AllOf(HasSubstr("must be at least 2"), HasSubstr("--bw = -50"), HasSubstr("--latency: is needed"),
            HasSubstr("tree"), HasSubstr("--step-ms = 3: has no effect")));
}

TEST(Requests, DegreesThatDoNotDivide) {
  EXPECT_THAT(
      refusal({"memory", "--preset", "llama2-70b", "--tensor", "7", "--pipeline", "3", "--gpus", "64"}),
      AllOf(HasSubstr("--tensor = 7: does not divide 64 heads"),
            HasSubstr("--pipeline = 3: does not divide 80"),
            HasSubstr("not a multiple of tensor * pipeline * context = 21")));
  EXPECT_THAT(refusal({"memory", "--preset", "llama2-70b", "--tensor", "8", "--data", "2", "--gpus", "8"}),
              HasSubstr("is not data * tensor * pipeline * context = 16"));
  EXPECT_THAT(refusal({"pipeline", "--stages", "4", "--micro-batches", "6", "--chunks", "2"}),
              HasSubstr("use 4 or 8"));
  EXPECT_THAT(refusal({"pipeline", "--stages", "4", "--micro-batches", "8", "--stage-ms", "1,2"}),
              HasSubstr("one for each of the 4 stages"));
  EXPECT_THAT(refusal({"collective", "--gpus", "12", "--bw", "1", "--latency", "1", "--gpus-per-node", "8",
                       "--inter-bw", "1"}),
              HasSubstr("not a multiple"));
  EXPECT_THAT(refusal({"memory", "--params", "7", "--zero", "3"}), HasSubstr("shards over data ranks"));
  EXPECT_THAT(refusal({"batch", "--global", "10", "--data", "2", "--accumulation", "2", "--micro", "2"}),
              HasSubstr("2 * 2 * 2 = 8"));
}

TEST(Requests, SettingsWithoutEffectAreRefused) {
  EXPECT_THAT(
      refusal({"pipeline", "--stages", "4", "--micro-batches", "8", "--schedule", "gpipe", "--chunks", "2"}),
      HasSubstr("--chunks = 2: has no effect"));
  EXPECT_THAT(refusal({"memory", "--preset", "llama2-7b", "--top", "3"}),
              HasSubstr("--top = 3: has no effect"));
  EXPECT_THAT(refusal({"memory", "--preset", "llama2-7b", "--hidden", "512"}),
              HasSubstr("contradicts --preset"));
}

TEST(Requests, WordsThatAreNotOptions) {
  EXPECT_THAT(refusal({"memmory"}), HasSubstr("did you mean memory?"));
  EXPECT_THAT(refusal({}), HasSubstr("needs a kind"));
  EXPECT_THAT(refusal({"batch", "--global"}), HasSubstr("needs a value"));
  EXPECT_THAT(refusal({"batch", "--global", "8", "--global", "8"}), HasSubstr("given twice"));
  EXPECT_THAT(refusal({"memory", "--params", "nan"}), HasSubstr("must be a positive number"));
  EXPECT_THAT(refusal({"memory", "--params", "7GB"}), HasSubstr("must be a positive number"));
  EXPECT_THAT(refusal({"memory", "--params", "1e300", "--gpus", "99999999999999999999"}),
              AllOf(HasSubstr("--params = 1e300"), HasSubstr("--gpus")));
  EXPECT_THAT(refusal({"batch", "stray"}), HasSubstr("stray: is not an option"));
  EXPECT_THAT(refusal({"throughput", "--params", "7", "--device", "h101"}), HasSubstr("h100-sxm"));
}

// Requests that together reach every part of every answer.
std::vector<std::vector<std::string>> wide_requests() {
  return {
      {"memory", "--preset", "llama2-70b", "--gpus", "8", "--memory", "192GiB", "--suggest", "--explain",
       "--kv-cache"},
      {"memory", "--list-presets"},
      {"collective", "--gpus", "8", "--bw", "50", "--latency", "8", "--gpus-per-node", "4", "--inter-bw",
       "25"},
      {"pipeline", "--stages", "4", "--micro-batches", "8", "--chunks", "2", "--sweep"},
      {"checkpoint", "--params", "70", "--bandwidth", "10", "--nodes", "64", "--node-mtbf-hours", "10000"},
      {"straggler", "--ranks", "8", "--sigma", "0.1"},
      {"throughput", "--preset", "gpt2-124m", "--tokens-per-second", "1000"},
      {"batch", "--global=64", "--data=4", "--micro=2", "--sequence=1024"},
      {"memory", "--preset", "llama2-7b", "--gpus", "8", "--pipeline", "4"},
      {"collective", "--gpus", "8", "--bw", "50", "--latency", "8", "--params", "7", "--step-ms", "900",
       "--layer-ratio", "--hidden", "4096"},
      {"collective", "--gpus", "8", "--bw", "50", "--latency", "8", "--preset", "llama2-7b",
       "--tensor-parallel", "--decode"},
      {"pipeline", "--stages", "4", "--micro-batches", "8", "--stage-ms", "40,42,55,40"},
      {"checkpoint", "--params", "70", "--bandwidth", "10", "--every-min", "30"},
      {"throughput", "--preset", "llama3-8b", "--sequence", "8192", "--peak-tflops", "989", "--mfu", "0.4",
       "--tokens", "1e12"}};
}

void collect_keys(const Json& json, std::set<std::string>& keys) {
  if (json.is_object())
    for (const auto& [key, value] : json.items()) keys.insert(key);
  if (json.is_structured())
    for (const Json& value : json) collect_keys(value, keys);
}

TEST(Requests, TheDocumentNamesEveryKey) {
  const std::string document = read_text(SOURCE_ROOT "/docs/estimate.md");
  std::set<std::string> keys;
  for (auto request : wide_requests()) {
    request.push_back("--json");
    collect_keys(parse_json(run(request), "answer"), keys);
  }
  EXPECT_GT(keys.size(), 90u);
  for (const std::string& key : keys) EXPECT_THAT(document, HasSubstr("`" + key + "`"));
}

TEST(Requests, EveryKindAnswersInBothForms) {
  for (auto request : wide_requests()) {
    SCOPED_TRACE(request[0]);
    EXPECT_GT(run(request).size(), 50u);
    request.push_back("--json");
    EXPECT_TRUE(parse_json(run(request), "answer").contains("kind"));
  }
  for (const Kind& kind : kinds()) {
    const std::string help = run({kind.name, "--help"});
    EXPECT_THAT(help, AllOf(HasSubstr("examples"), HasSubstr(std::string("muster estimate ") + kind.name)));
  }
}

// The examples of the help are requests that answer.
TEST(Requests, TheHelpsExamplesAnswer) {
  int examples = 0;
  for (const Kind& kind : kinds()) {
    std::string text = kind.examples;
    for (size_t at; (at = text.find("\\\n")) != std::string::npos;) text.erase(at, 2);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      const std::string begin = "  muster estimate ";
      if (!line.starts_with(begin)) continue;
      std::vector<std::string> words(1);
      bool quoted = false;
      for (char letter : line.substr(begin.size())) {
        if (letter == '"')
          quoted = !quoted;
        else if (letter == ' ' && !quoted) {
          if (!words.back().empty()) words.emplace_back();
        } else
          words.back() += letter;
      }
      SCOPED_TRACE(line);
      EXPECT_NO_THROW(run(words));
      ++examples;
    }
  }
  EXPECT_GT(examples, 15);
}

TEST(Collectives, AFlatGroupThatLeavesTheNodeGoesAtTheNetworksPace) {
  const auto page = [](const char* gpus) {
    return run({"collective", "--gpus", gpus, "--bw", "300", "--latency", "5", "--gpus-per-node", "8",
                "--inter-bw", "25"});
  };
  EXPECT_THAT(page("8"), HasSubstr("over 8 devices at 300 GB/s"));
  EXPECT_THAT(page("16"), HasSubstr("over 16 devices at 25 GB/s"));
}

TEST(Numbers, TiesFallAsTheFigureIsWritten) {
  EXPECT_EQ(decimal(12.5, 0), "12");  // exactly between: to the even one
  EXPECT_EQ(decimal(1050.45, 1), "1050.5");
  EXPECT_EQ(decimal(240.75 + 1050 - 1e-12, 1), "1290.8");  // the last bits of a sum do not decide
}

TEST(Options, NearestName) {
  EXPECT_EQ(nearest("--micro-bach", {"--micro-batch", "--micro"}), "--micro-batch");
  EXPECT_EQ(nearest("zzzzzz", {"ring", "tree"}), "");
}

}  // namespace
}  // namespace muster::estimate
