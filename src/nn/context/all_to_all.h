// The all-to-all form of context parallelism (Jacobs et al. 2023, "DeepSpeed Ulysses"): before attention the
// ranks swap tokens for heads, so that each has its share of the heads over whole sequences, and swap back
// after. Where there are fewer key and value heads than ranks, ranks whose queries share one each get it.
//
// Everything here is collective over the group.
#pragma once
#include "nn/context/context_group.h"
#include "nn/ops/attention.h"

namespace muster::nn {

// The heads of one rank where `ranks` share them.
HeadShape share_of(const HeadShape& heads, int64_t ranks);

// A rank's heads of whole sequences: M = sequences * whole length rows.
struct HeadParts {
  at::Tensor qkv_ME;
  AttentionOutput attention;
};

// The output of this rank's rows [N, Q D]; `parts` is what backward needs.
at::Tensor all_to_all_attention(Executor& run, const ContextGroup& group, HeadParts& parts,
                                const at::Tensor& qkv_NE, const Positions& positions, const HeadShape& heads);
// qkv_NE becomes its gradient; so does parts.qkv_ME.
void all_to_all_attention_backward(Executor& run, const ContextGroup& group, at::Tensor qkv_NE,
                                   const HeadParts& parts, const at::Tensor& dout_NQ,
                                   const Positions& positions, const HeadShape& heads);

}  // namespace muster::nn
