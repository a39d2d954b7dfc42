// The attention half of a block: r + Wo attention(rotary(Wqkv norm(r))); split by heads over a tensor group.
#pragma once
#include "nn/layers/normed_linear.h"
#include "nn/ops/attention.h"
#include "nn/ops/elementwise.h"

namespace muster::nn {

class AttentionLayer {
 public:
  struct Parameters {
    NormedLinear qkv;  // outputs [query, key, value]
    Weight* out = nullptr;
    Weight* out_bias = nullptr;  // may be null
  };
  struct Saved {
    at::Tensor residual_MH;
    NormSaved norm;
    at::Tensor qkv_NE;
    AttentionOutput attention;
  };
  // `heads` of this rank.
  AttentionLayer(Parameters parameters, HeadShape heads, TensorGroup group)
      : p_(parameters), heads_(heads), group_(group) {}

  // The residual stream after this layer. Keeps residual_MH and what else backward needs in `saved`; with
  // `saved` null nothing is kept.
  at::Tensor forward(Executor& run, const at::Tensor& residual_MH, int64_t length, const RotaryTable& rotary,
                     const Dropout& dropout, Saved* saved) const;
  // d_MH, the gradient of the stream after the layer, becomes that of the stream before it. `saved` is used
  // up.
  void backward(Executor& run, at::Tensor d_MH, int64_t length, const RotaryTable& rotary,
                const Dropout& dropout, Saved& saved) const;

 private:
  Parameters p_;
  HeadShape heads_;
  TensorGroup group_;
};

}  // namespace muster::nn
