#include "estimate/batch.h"

#include <algorithm>

#include "base/error.h"

namespace muster::estimate {
namespace {

constexpr int64_t kMostSequences = int64_t{1} << 40;

int64_t divided(int64_t global, int64_t known, const char* missing) {
  if (global % known == 0) return global / known;
  const int64_t below = global / known * known;
  throw UserError({"--global", std::to_string(global),
                   fmt::format("is not a multiple of {}, so --{} would not be whole", known, missing),
                   fmt::format("use {} or {}", std::max(below, known), below + known)});
}

int present(const BatchRequest& r) {
  return r.global.has_value() + r.data.has_value() + r.accumulation.has_value() + r.micro.has_value();
}

}  // namespace

Batch complete_batch(const BatchRequest& r) {
  if (present(r) < 3)
    throw UserError({"batch", "", "needs three of --global, --data, --accumulation and --micro",
                     "give one more; the fourth follows"});
  Batch batch = {r.global.value_or(1), r.data.value_or(1), r.accumulation.value_or(1), r.micro.value_or(1)};
  int64_t product = 0;
  if (__builtin_mul_overflow(batch.data, batch.accumulation, &product) ||
      __builtin_mul_overflow(product, batch.micro, &product) || product > kMostSequences)
    throw UserError({"batch", "", fmt::format("data * accumulation * micro is more than {}", kMostSequences),
                     "correct them"});
  if (!r.global) batch.global = product;
  if (!r.data) batch.data = divided(batch.global, product, "data");
  if (!r.accumulation) batch.accumulation = divided(batch.global, product, "accumulation");
  if (!r.micro) batch.micro = divided(batch.global, product, "micro");
  if (present(r) == 4 && product != batch.global)
    throw UserError({"--global", std::to_string(batch.global),
                     fmt::format("is not data * accumulation * micro = {} * {} * {} = {}", batch.data,
                                 batch.accumulation, batch.micro, product),
                     "leave one of the four out, and it is derived"});
  return batch;
}

}  // namespace muster::estimate
