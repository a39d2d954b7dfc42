// The attention half of a block: r + Wo attention(rotary(Wqkv norm(r))); split by heads over a tensor group
// and by tokens over a context group.
#pragma once
#include "nn/context/context_attention.h"
#include "nn/layers/normed_linear.h"
#include "nn/ops/elementwise.h"
#include "nn/recompute.h"

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
    ContextSaved attention;
  };
  // `heads` of this rank of the tensor group.
  AttentionLayer(Parameters parameters, HeadShape heads, TensorGroup group, ContextGroup context)
      : p_(parameters), heads_(heads), group_(group), context_(context) {}

  // The residual stream after this layer. Keeps what `keep` says in `saved`; with `saved` null nothing.
  at::Tensor forward(Executor& run, const at::Tensor& residual_MH, const Positions& positions,
                     const RotaryTable& rotary, const Dropout& dropout, Keep keep, Saved* saved) const;
  // Computes again what `saved` has not kept beside its residual_MH.
  void restore(Executor& run, const Positions& positions, const RotaryTable& rotary, Saved& saved) const;
  // The stream after this layer, from all that backward needs.
  at::Tensor output(Executor& run, const Dropout& dropout, const Saved& saved) const;
  // d_MH, the gradient of the stream after the layer, becomes that of the stream before it. `saved` is whole
  // and is used up.
  void backward(Executor& run, at::Tensor d_MH, const Positions& positions, const RotaryTable& rotary,
                const Dropout& dropout, Saved& saved) const;
  // Of `rows` rows in sequences of `length`: the bytes of a Saved, the FLOPs of restore().
  KeepCosts costs(int64_t rows, int64_t length, int64_t element_bytes, int64_t statistic_bytes) const;

 private:
  Parameters p_;
  HeadShape heads_;
  TensorGroup group_;
  ContextGroup context_;
};

}  // namespace muster::nn
