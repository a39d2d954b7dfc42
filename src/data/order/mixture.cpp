#include "data/order/mixture.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace muster::data {
namespace {

constexpr const char* kField = "data.sources";

size_t index_of(std::vector<std::string>& paths, const std::string& path) {
  const auto known = static_cast<size_t>(std::find(paths.begin(), paths.end(), path) - paths.begin());
  if (known == paths.size()) paths.push_back(path);
  return known;
}

// sample -> set -> the weight from there on
using Changes = std::map<int64_t, std::map<size_t, double>>;

Changes changes_of(const std::vector<spec::DataSource>& sources, std::vector<std::string>& paths) {
  Changes changes;
  for (const spec::DataSource& source : sources) {
    if (source.from_sample < 0)
      throw UserError({kField, source.path, "from_sample counts from 0", "give a sample of 0 or more"});
    if (!changes[source.from_sample].emplace(index_of(paths, source.path), source.weight).second)
      throw UserError({kField, source.path, fmt::format("has two weights from sample {}", source.from_sample),
                       "keep one of them"});
  }
  if (changes.empty() || changes.begin()->first != 0)
    throw UserError({kField, "", "no source starts at sample 0", "leave from_sample out of one source"});
  return changes;
}

}  // namespace

Mixture::Mixture(const std::vector<spec::DataSource>& sources) {
  const Changes changes = changes_of(sources, paths_);
  std::vector<double> weights(paths_.size(), 0);
  for (const auto& [from_sample, changed] : changes) {
    for (const auto& [set, weight] : changed) weights[set] = weight;
    Phase phase{from_sample, std::make_unique<FairSchedule>(whole_shares(weights, kField)),
                std::vector<int64_t>(paths_.size(), 0)};
    if (!phases_.empty()) {
      const Phase& before = phases_.back();
      phase.drawn_before = before.schedule->counts(from_sample - before.from_sample);
      for (size_t set = 0; set < paths_.size(); ++set) phase.drawn_before[set] += before.drawn_before[set];
    }
    phases_.push_back(std::move(phase));
  }
}

Draw Mixture::draw(int64_t sample) const {
  const auto after = std::upper_bound(phases_.begin(), phases_.end(), sample,
                                      [](int64_t at, const Phase& phase) { return at < phase.from_sample; });
  const Phase& phase = *std::prev(after);
  Draw draw = phase.schedule->draw(sample - phase.from_sample);
  draw.number += phase.drawn_before[static_cast<size_t>(draw.set)];
  return draw;
}

}  // namespace muster::data
