// The FFN half of a block: r + Wdown act(Wup norm(r)), the activation SwiGLU over [gate, up] or GELU;
// split by width over a tensor group.
#pragma once
#include "nn/layers/normed_linear.h"
#include "nn/ops/elementwise.h"
#include "nn/recompute.h"

namespace muster::nn {

class MlpLayer {
 public:
  enum class Activation { swiglu, gelu };
  struct Parameters {
    NormedLinear up;  // SwiGLU: outputs [gate, up]
    Weight* down = nullptr;
    Weight* down_bias = nullptr;  // may be null
  };
  struct Saved {
    at::Tensor residual_MH;
    NormSaved norm;
    at::Tensor up_NG;  // before the activation
  };
  // `intermediate_size` of this rank.
  MlpLayer(Parameters parameters, Activation activation, int64_t intermediate_size, TensorGroup group)
      : p_(parameters), activation_(activation), size_(intermediate_size), group_(group) {}

  // As AttentionLayer's; with Keep::input nothing is kept: residual_MH is the attention layer's output, which
  // its own input gives again.
  at::Tensor forward(Executor& run, const at::Tensor& residual_MH, const Dropout& dropout, Keep keep,
                     Saved* saved) const;
  void restore(Executor& run, Saved& saved) const;
  void backward(Executor& run, at::Tensor d_MH, const Dropout& dropout, Saved& saved) const;
  KeepCosts costs(int64_t rows, int64_t element_bytes, int64_t statistic_bytes) const;

 private:
  at::Tensor output(Executor& run, const Dropout& dropout, const Saved& saved) const;
  Parameters p_;
  Activation activation_;
  int64_t size_;
  TensorGroup group_;
};

}  // namespace muster::nn
