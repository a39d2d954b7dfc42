#include "data/order/fair_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace muster::data {
namespace {

using Wide = __int128;  // a count times a total

constexpr int64_t kBlockDraws = 1 << 16;
constexpr double kMostTotal = 0x1p53;
constexpr int kMostDecimals = 9;

bool all_whole(const std::vector<double>& weights, double scale) {
  return std::all_of(weights.begin(), weights.end(), [&](double weight) {
    const double scaled = weight * scale;
    return std::abs(scaled - std::round(scaled)) <= 1e-12 * scaled;
  });
}

// The smallest power of ten that makes every weight whole, or the largest that fits.
double decimal_scale(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double scale = 1;
  for (int decimals = 0; decimals < kMostDecimals; ++decimals) {
    if (all_whole(weights, scale) || sum * scale * 10 > kMostTotal) break;
    scale *= 10;
  }
  return scale;
}

void check_weights(const std::vector<double>& weights, const std::string& field) {
  double sum = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw UserError({field, fmt::format("{}", weight), "a weight is a number of 0 or more", "correct it"});
    sum += weight;
  }
  if (sum == 0) throw UserError({field, "", "no source has a weight above 0", "give one a weight"});
  if (sum > kMostTotal)
    throw UserError(
        {field, fmt::format("{}", sum), "the weights add up to more than 2^53", "scale them down"});
}

}  // namespace

std::vector<int64_t> whole_shares(const std::vector<double>& weights, const std::string& field) {
  check_weights(weights, field);
  const double scale = decimal_scale(weights);
  std::vector<int64_t> shares;
  int64_t divisor = 0;
  for (const double weight : weights) {
    shares.push_back(std::llround(weight * scale));
    divisor = std::gcd(divisor, shares.back());
    if (weight > 0 && shares.back() == 0)
      throw UserError({field, fmt::format("{}", weight),
                       "is lost beside the other weights: nine decimals count",
                       "give it a larger weight, or 0"});
  }
  for (int64_t& share : shares) share /= divisor;
  return shares;
}

FairSchedule::FairSchedule(std::vector<int64_t> shares)
    : shares_(std::move(shares)),
      total_(std::accumulate(shares_.begin(), shares_.end(), int64_t{0})),
      counts_at_block_{std::vector<int64_t>(shares_.size(), 0)} {
  MUSTER_CHECK(total_ > 0, "no share is positive");
}

int64_t FairSchedule::next(std::vector<int64_t>& counts, int64_t place) const {
  int64_t chosen = -1;
  const auto later = [&](size_t a, size_t b) {
    return Wide{counts[a] + 1} * shares_[b] > Wide{counts[b] + 1} * shares_[a];
  };
  for (size_t set = 0; set < shares_.size(); ++set) {
    const bool released = Wide{counts[set]} * total_ < Wide{shares_[set]} * (place + 1);
    if (released && (chosen < 0 || later(static_cast<size_t>(chosen), set)))
      chosen = static_cast<int64_t>(set);
  }
  MUSTER_CHECK(chosen >= 0, "no set may be drawn at {} of {}", place, total_);
  ++counts[static_cast<size_t>(chosen)];
  return chosen;
}

void FairSchedule::pass_to(int64_t block) const {
  while (std::ssize(counts_at_block_) <= block) {
    std::vector<int64_t> counts = counts_at_block_.back();
    const int64_t first = (std::ssize(counts_at_block_) - 1) * kBlockDraws;
    for (int64_t place = first; place < first + kBlockDraws; ++place) next(counts, place);
    counts_at_block_.push_back(std::move(counts));
  }
}

std::shared_ptr<const FairSchedule::Block> FairSchedule::block(int64_t index) const {
  const std::lock_guard lock(mutex_);
  if (last_ && last_->index == index) return last_;
  pass_to(index);
  std::vector<int64_t> counts = counts_at_block_[static_cast<size_t>(index)];
  auto made = std::make_shared<Block>();
  made->index = index;
  const int64_t first = index * kBlockDraws, end = std::min(first + kBlockDraws, total_);
  for (int64_t place = first; place < end; ++place) {
    const int64_t set = next(counts, place);
    made->draws.push_back({set, counts[static_cast<size_t>(set)] - 1});
  }
  last_ = made;
  return made;
}

Draw FairSchedule::draw(int64_t index) const {
  MUSTER_CHECK(index >= 0, "draw {}", index);
  const int64_t rounds = index / total_, place = index % total_;
  Draw draw = block(place / kBlockDraws)->draws[static_cast<size_t>(place % kBlockDraws)];
  draw.number += rounds * shares_[static_cast<size_t>(draw.set)];
  return draw;
}

std::vector<int64_t> FairSchedule::counts(int64_t draws) const {
  const int64_t rounds = draws / total_, place = draws % total_;
  std::vector<int64_t> counts;
  {
    const std::lock_guard lock(mutex_);
    pass_to(place / kBlockDraws);
    counts = counts_at_block_[static_cast<size_t>(place / kBlockDraws)];
  }
  for (int64_t at = place - place % kBlockDraws; at < place; ++at) next(counts, at);
  for (size_t set = 0; set < counts.size(); ++set) counts[set] += rounds * shares_[set];
  return counts;
}

}  // namespace muster::data
