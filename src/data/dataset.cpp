#include "data/dataset.h"

#include <numeric>

#include "data/source.h"

namespace muster::data {
namespace {

// Sets of one mixture must not share a permutation, or equal files would be drawn in step.
std::string order_name(size_t sets, size_t set) {
  return sets == 1 ? "" : fmt::format("source {} ", set);
}

}  // namespace

Dataset Dataset::open_training(const spec::Job& job) {
  const Sources sources(job);
  Dataset dataset(job, sources.vocabulary());
  const std::vector<Place> places = training_places(job);
  for (size_t set = 0; set < places.size(); ++set) {
    TokenFile file = sources.open(places[set]);
    const int64_t windows = split(job.data, file.ids()).training;
    require_window(job.data, places[set], file.ids(), windows);
    dataset.sets_.push_back({std::move(file), 0,
                             WindowOrder(parse_order(job.data.order), job.training.seed,
                                         order_name(places.size(), set), windows)});
  }
  if (!job.data.sources.empty()) dataset.mixture_ = std::make_unique<Mixture>(job.data.sources);
  return dataset;
}

std::optional<Dataset> Dataset::open_validation(const spec::Job& job) {
  const std::optional<Place> own = validation_place(job);
  if (!own && job.data.validation_fraction == 0) return std::nullopt;
  const Sources sources(job);
  Dataset dataset(job, sources.vocabulary());
  const Place place = own ? *own : training_places(job).front();
  TokenFile file = sources.open(place);
  const Split parts =
      own ? Split{0, window_count(file.ids(), job.data.sequence_length)} : split(job.data, file.ids());
  require_window(job.data, place, file.ids(), parts.validation);
  dataset.sets_.push_back(
      {std::move(file), parts.training, WindowOrder(Order::sequential, 0, "", parts.validation)});
  return dataset;
}

Dataset::Dataset(const spec::Job& job, int64_t vocabulary)
    : sequence_length_(job.data.sequence_length), vocabulary_(vocabulary) {}

int64_t Dataset::windows() const {
  return std::accumulate(sets_.begin(), sets_.end(), int64_t{0},
                         [](int64_t sum, const Set& set) { return sum + set.order.windows(); });
}

void Dataset::fill(int64_t sample, std::span<int32_t> out) const {
  MUSTER_CHECK(std::ssize(out) == sequence_length_ + 1, "{} ids asked of sequences of {}", out.size(),
               sequence_length_);
  const Draw draw = mixture_ ? mixture_->draw(sample) : Draw{0, sample};
  const Set& set = sets_[static_cast<size_t>(draw.set)];
  set.file.read((set.first_window + set.order.window(draw.number)) * sequence_length_, out);
}

}  // namespace muster::data
