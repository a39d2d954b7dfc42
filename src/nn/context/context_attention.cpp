#include "nn/context/context_attention.h"

namespace muster::nn {

ContextSaved context_attention(Executor& run, const ContextGroup& group, const at::Tensor& qkv_NE,
                               const Positions& positions, const HeadShape& heads) {
  if (group.is_split() && !group.is_ring()) {
    ContextSaved saved;
    saved.out_NQ = all_to_all_attention(run, group, saved.parts, qkv_NE, positions, heads);
    return saved;
  }
  const AttentionOutput result = group.is_split()
                                     ? ring_attention(run, group, qkv_NE, positions, heads)
                                     : attention(run, qkv_NE, positions.length, heads, positions.blocks[0]);
  return {result.out_NQ, result.lse_BQS, {}};
}

int64_t kept_bytes(const ContextGroup& group, const HeadShape& heads, int64_t element_bytes,
                   int64_t statistic_bytes) {
  const int64_t output = element_bytes * heads.q_size() + statistic_bytes * heads.query_heads;
  if (!group.is_split() || group.is_ring()) return output;
  // The rank's heads of whole sequences beside what its rows have.
  return output + element_bytes * (heads.q_size() + group.size() * share_of(heads, group.size()).row());
}

ContextBackward::ContextBackward(Executor& run, const ContextGroup& group, at::Tensor qkv_NE,
                                 const ContextSaved& saved, const Positions& positions,
                                 const HeadShape& heads)
    : run_(run),
      group_(group),
      qkv_NE_(std::move(qkv_NE)),
      saved_(saved),
      positions_(positions),
      heads_(heads) {
  if (group.is_split() && group.is_ring()) ring_.emplace(run, group, qkv_NE_, heads);
}

void ContextBackward::run(const at::Tensor& dout_NQ) {
  const AttentionOutput output{saved_.out_NQ, saved_.lse_BQS};
  if (ring_)
    ring_attention_backward(run_, group_, *ring_, qkv_NE_, output, dout_NQ, positions_, heads_);
  else if (group_.is_split())
    all_to_all_attention_backward(run_, group_, qkv_NE_, saved_.parts, dout_NQ, positions_, heads_);
  else
    attention_backward(run_, qkv_NE_, output, dout_NQ, positions_.length, heads_, positions_.blocks[0]);
}

}  // namespace muster::nn
