// The FFN half of a block: r + Wdown act(Wup norm(r)), the activation SwiGLU over [gate, up] or GELU;
// split by width over a tensor group.
#pragma once
#include "nn/ops/elementwise.h"
#include "nn/ops/norm.h"
#include "nn/recompute.h"
#include "nn/tensor_group.h"

namespace muster::nn {

class MlpLayer {
 public:
  enum class Activation { swiglu, gelu };
  struct Parameters {
    Norm norm;
    Weight* up = nullptr;       // SwiGLU: rows [gate, up]
    Weight* up_bias = nullptr;  // may be null, as below
    Weight* down = nullptr;
    Weight* down_bias = nullptr;
  };
  struct Saved {
    at::Tensor residual_NH;
    NormSaved norm;
    at::Tensor up_NG;  // before the activation
  };
  // `intermediate_size` of this rank.
  MlpLayer(Parameters parameters, Activation activation, int64_t intermediate_size, TensorGroup group)
      : p_(parameters), activation_(activation), size_(intermediate_size), group_(group) {}

  // As AttentionLayer's; with Keep::input nothing is kept: residual_NH is the attention layer's output, which
  // its own input gives again.
  at::Tensor forward(Executor& run, const at::Tensor& residual_NH, const Dropout& dropout, Keep keep,
                     Saved* saved) const;
  void restore(Executor& run, Saved& saved) const;
  void backward(Executor& run, at::Tensor d_NH, const Dropout& dropout, Saved& saved) const;
  KeepCosts costs(int64_t rows) const;

 private:
  at::Tensor output(Executor& run, const Dropout& dropout, const Saved& saved) const;
  int64_t up_width() const { return activation_ == Activation::swiglu ? 2 * size_ : size_; }
  Parameters p_;
  Activation activation_;
  int64_t size_;
  TensorGroup group_;
};

}  // namespace muster::nn
