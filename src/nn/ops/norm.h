// RMSNorm (Zhang and Sennrich 2019) and LayerNorm (Ba et al. 2016) over rows. The normed rows are not kept
// for backward: they are made again from the statistics, which are.
#pragma once
#include "nn/executor.h"
#include "nn/weight.h"

namespace muster::nn {

// Parameters of one norm; `bias` is defined for LayerNorm alone.
struct Norm {
  Weight* weight = nullptr;
  Weight* bias = nullptr;
  double eps = 1e-5;
};

// Statistics by row, in the executor's format for them: rstd_N, and mean_N for LayerNorm.
struct NormSaved {
  at::Tensor mean_N, rstd_N;
};

// y_NH = norm(x_NH); `saved` is allocated as activations.
void norm(Executor& run, at::Tensor y_NH, NormSaved& saved, const at::Tensor& x_NH, const Norm& layer);
// The same y again, bit for bit.
void norm_again(Executor& run, at::Tensor y_NH, const NormSaved& saved, const at::Tensor& x_NH,
                const Norm& layer);
// dx_NH += the gradient of x; the parameters' gradients are written.
void norm_backward(Executor& run, at::Tensor dx_NH, const at::Tensor& dy_NH, const NormSaved& saved,
                   const at::Tensor& x_NH, const Norm& layer);

}  // namespace muster::nn
