// The attention half of a block: r + Wo attention(rotary(Wqkv norm(r))); split by heads over
// a tensor group and by tokens over a context group.
#pragma once
#include "nn/context/context_attention.h"
#include "nn/ops/elementwise.h"
#include "nn/ops/norm.h"
#include "nn/tensor_group.h"

namespace muster::nn {

class AttentionLayer {
 public:
  struct Parameters {
    Norm norm;
    Weight* qkv = nullptr;       // rows [query, key, value]
    Weight* qkv_bias = nullptr;  // may be null, as below
    Weight* out = nullptr;
    Weight* out_bias = nullptr;
  };
  struct Saved {
    at::Tensor residual_NH;
    NormSaved norm;
    at::Tensor qkv_NE;
    ContextSaved attention;
  };
  // `heads` of this rank of the tensor group.
  AttentionLayer(Parameters parameters, HeadShape heads, TensorGroup group, ContextGroup context)
      : p_(parameters), heads_(heads), group_(group), context_(context) {}

  // The residual stream after this layer. Keeps residual_NH and what else backward needs in `saved`; with
  // `saved` null nothing is kept.
  at::Tensor forward(Executor& run, const at::Tensor& residual_NH, const Positions& positions,
                     const RotaryTable& rotary, const Dropout& dropout, Saved* saved) const;
  // d_NH, the gradient of the stream after the layer, becomes that of the stream before it. `saved` is used
  // up.
  void backward(Executor& run, at::Tensor d_NH, const Positions& positions, const RotaryTable& rotary,
                const Dropout& dropout, Saved& saved) const;

 private:
  Parameters p_;
  HeadShape heads_;
  TensorGroup group_;
  ContextGroup context_;
};

}  // namespace muster::nn
