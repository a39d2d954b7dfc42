#include "train/optim/orthogonalize.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace muster::train {
namespace {

// x -> a x + b x^3 + c x^5: steep at 0, so that small singular values come up in few rounds; it does not
// settle at 1 but near it.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

double flops_of_round(int64_t m, int64_t n) {
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n);
  return 4 * rows * rows * columns + 2 * rows * rows * rows;
}

// By the largest element first: the squares of small elements, and of large ones, are out of range.
void normalize(const at::Tensor& x_MN) {
  constexpr double kLeast = std::numeric_limits<float>::min();
  const double infinity = std::numeric_limits<double>::infinity();
  x_MN.div_(at::linalg_vector_norm(x_MN, infinity).clamp_min_(kLeast));
  x_MN.div_(at::linalg_vector_norm(x_MN, 2).clamp_min_(1));
}

}  // namespace

// M: the shorter side.
void orthogonalize(nn::Executor& run, const at::Tensor& matrix, int64_t steps) {
  const at::Tensor wide = matrix.size(0) > matrix.size(1) ? matrix.t() : matrix;
  const int64_t m = wide.size(0), n = wide.size(1);
  const auto scratch = [&](int64_t rows, int64_t columns) {
    return run.empty({rows, columns}, nn::Category::temporary, matrix.scalar_type());
  };
  at::Tensor x_MN = scratch(m, n), next_MN = scratch(m, n), gram_MM = scratch(m, m),
             factor_MM = scratch(m, m);
  run.run("normalize", {0, nn::bytes_of(matrix, 8)}, [&] {
    x_MN.copy_(wide);
    normalize(x_MN);
  });
  for (int64_t step = 0; step < steps; ++step) {
    run.run("newton_schulz", {flops_of_round(m, n), nn::bytes_of(x_MN, 4) + nn::bytes_of(gram_MM, 4)}, [&] {
      at::mm_out(gram_MM, x_MN, x_MN.t());
      at::addmm_out(factor_MM, gram_MM, gram_MM, gram_MM, kB, kC);
      at::addmm_out(next_MN, x_MN, factor_MM, x_MN, kA, 1);
    });
    std::swap(x_MN, next_MN);
  }
  run.run("copy", {0, nn::bytes_of(matrix, 2)}, [&] { at::Tensor(wide).copy_(x_MN); });
}

double orthogonalize_condition(int64_t steps) {
  return std::pow(kA, static_cast<double>(steps));
}

}  // namespace muster::train
