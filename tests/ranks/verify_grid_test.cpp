// `muster verify` over compositions of everything that a layout can say, within 8 processes: every pair of
// two choices, and a random half of the mesh's other compositions (in `make soak`, all of them).
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/ranks/proofs.h"

namespace muster::test {
namespace {

struct Factor {
  const char* name;
  std::vector<std::string> settings;
};

enum : size_t { kFamily, kData, kTensor, kSequence, kContext, kRecompute, kAccumulate, kMeshFactors };
enum : size_t { kShards = kMeshFactors, kDtype, kDropout, kDocuments, kOptimizer };

// The first seven make the mesh and what a rank does on it.
const std::vector<Factor>& factors() {
  static const std::vector<Factor> all = {
      {"", {"llama", "gpt2"}},
      {"layout.data", {"1", "2", "4"}},
      {"layout.tensor", {"1", "2", "4"}},
      {"layout.sequence_parallel", {"false", "true"}},
      {"layout.context", {"1", "2 ring", "4 ring", "2 all_to_all", "4 all_to_all"}},
      {"layout.recompute", {"none", "selective", "full", "every:2"}},
      {"accumulation", {"1", "3"}},
      {"layout.zero", {"0", "1", "2", "3", "2 hybrid", "3 hybrid"}},
      {"numerics.compute", {"float64", "float32"}},
      {"training.dropout", {"0", "0.2"}},
      {"data.document_end", {"-1", "7"}},
      {"optimizer.name", {"adamw", "muon"}},
  };
  return all;
}

using Case = std::vector<size_t>;  // of each factor, the number of its setting

const std::string& setting(const Case& c, size_t factor) {
  return factors()[factor].settings[c[factor]];
}
int number(const Case& c, size_t factor) {
  return std::stoi(setting(c, factor));
}
int procs(const Case& c) {
  return number(c, kData) * number(c, kTensor) * number(c, kContext);
}
bool is(const Case& c, size_t factor, const char* part) {
  return setting(c, factor).find(part) != std::string::npos;
}

// A mesh of at most 8 ranks whose four query heads and two key heads can be shared out.
bool is_mesh(const Case& c) {
  const int tensor = number(c, kTensor), context = number(c, kContext);
  return procs(c) <= 8 && (tensor > 1 || !is(c, kSequence, "true")) &&
         (!is(c, kContext, "all_to_all") || 4 / tensor % context == 0);
}
bool has_shards(const Case& c) {
  const int replicas = is(c, kShards, "hybrid") ? 2 : 1;
  return number(c, kShards) == 0 ||
         (number(c, kData) % replicas == 0 && number(c, kData) * number(c, kContext) > replicas);
}

// All cases of the first `count` factors that are possible; the others have their first setting.
std::vector<Case> all_cases(size_t count) {
  std::vector<Case> cases = {Case(factors().size(), 0)};
  for (size_t factor = 0; factor < count; ++factor) {
    std::vector<Case> more;
    for (const Case& c : cases)
      for (size_t choice = 0; choice < factors()[factor].settings.size(); ++choice) {
        more.push_back(c);
        more.back()[factor] = choice;
      }
    cases = std::move(more);
  }
  std::erase_if(cases, [](const Case& c) { return !is_mesh(c) || !has_shards(c); });
  return cases;
}

using Pairs = std::set<std::array<size_t, 4>>;

Pairs pairs_of(const Case& c) {
  Pairs pairs;
  for (size_t a = 0; a < c.size(); ++a)
    for (size_t b = a + 1; b < c.size(); ++b) pairs.insert({a, c[a], b, c[b]});
  return pairs;
}

// Each time the case of a random few that shows the most new pairs, until every possible pair is shown.
std::vector<Case> cover_pairs(const std::vector<Case>& cases, std::mt19937_64& random) {
  Pairs missing;
  for (const Case& c : cases) missing.merge(pairs_of(c));
  const auto news = [&](const Case& c) {
    return std::ranges::count_if(pairs_of(c), [&](const auto& pair) { return missing.contains(pair); });
  };
  std::vector<Case> chosen;
  while (!missing.empty()) {
    const Case* best = nullptr;
    int64_t most = 0;
    for (size_t tries = 0; tries < 200 || most == 0; ++tries)
      if (const Case& c = cases[random() % cases.size()]; news(c) > most) best = &c, most = news(c);
    for (const auto& pair : pairs_of(*best)) missing.erase(pair);
    chosen.push_back(*best);
  }
  return chosen;
}

Case mesh_of(Case c) {
  std::fill(c.begin() + kMeshFactors, c.end(), 0);
  return c;
}

// What else a rank does, drawn for a mesh.
Case furnish(Case c, std::mt19937_64& random) {
  do {
    for (size_t factor = kMeshFactors; factor < c.size(); ++factor)
      c[factor] = random() % factors()[factor].settings.size();
  } while (!has_shards(c));
  return c;
}

std::vector<Case> chosen_cases() {
  std::mt19937_64 random(20);
  std::vector<Case> chosen = cover_pairs(all_cases(factors().size()), random);
  std::vector<Case> rest = all_cases(kMeshFactors);
  std::erase_if(rest, [&](const Case& c) {
    return std::ranges::any_of(chosen, [&](const Case& other) { return mesh_of(other) == c; });
  });
  std::ranges::shuffle(rest, random);
  if (!is_soak()) rest.resize(rest.size() / 2);
  for (const Case& c : rest) chosen.push_back(furnish(c, random));
  return chosen;
}

std::string command(const Folder& folder, const Case& c) {
  const int batch = 12, micro = batch / number(c, kData) / number(c, kAccumulate);
  std::string line =
      small_job(folder, setting(c, kFamily)) +
      fmt::format(" --set training.global_batch_size={} --set training.micro_batch_size={}", batch, micro);
  for (const size_t factor : {kData, kTensor, kSequence, kContext, kRecompute})
    if (c[factor] > 0)
      line += fmt::format(" --set {}={}", factors()[factor].name,
                          setting(c, factor).substr(0, setting(c, factor).find(' ')));
  for (const size_t factor :
       {size_t(kShards), size_t(kDtype), size_t(kDropout), size_t(kDocuments), size_t(kOptimizer)})
    line += fmt::format(" --set {}={}", factors()[factor].name,
                        setting(c, factor).substr(0, setting(c, factor).find(' ')));
  if (is(c, kContext, "all_to_all")) line += " --set layout.context_method=all_to_all";
  if (is(c, kShards, "hybrid")) line += " --set layout.replicate=2";
  return line;
}

std::string name_of(const Case& c) {
  static constexpr const char* kShort[] = {"", "d", "t", "sp", "c", "", "a", "z", "", "drop", "end", ""};
  std::string name;
  for (size_t factor = 0; factor < c.size(); ++factor)
    if (factor == kFamily || c[factor] > 0) name += fmt::format("{}{}_", kShort[factor], setting(c, factor));
  std::erase_if(name, [](char letter) { return !std::isalnum(letter) && letter != '_'; });
  return name;
}

class VerifyGrid : public ::testing::TestWithParam<Case> {};

TEST_P(VerifyGrid, EveryProofHolds) {
  const Folder folder;
  expect_every_proof(command(folder, GetParam()), procs(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Layouts, VerifyGrid, ::testing::ValuesIn(chosen_cases()), [](const auto& info) {
  return fmt::format("{}_{}", info.index, name_of(info.param));
});

}  // namespace
}  // namespace muster::test
