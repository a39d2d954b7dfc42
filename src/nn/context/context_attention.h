// Attention over sequences whose tokens lie on the ranks of a context group; alone, plain attention.
#pragma once
#include <optional>

#include "nn/context/all_to_all.h"
#include "nn/context/ring.h"

namespace muster::nn {

// What attention leaves for backward.
struct ContextSaved {
  at::Tensor out_NQ;  // of this rank's rows
  at::Tensor lse_BQS;
  HeadParts parts;  // of the all-to-all form alone
};

// Collective over the group, as is what follows. qkv_NE is not changed.
ContextSaved context_attention(Executor& run, const ContextGroup& group, const at::Tensor& qkv_NE,
                               const Positions& positions, const HeadShape& heads);
// Bytes of a ContextSaved, by row of this rank, from those of an element and of a statistic.
int64_t kept_bytes(const ContextGroup& group, const HeadShape& heads, int64_t element_bytes,
                   int64_t statistic_bytes);

// Made before the gradient of the output is known, so that messages travel while it is worked out.
class ContextBackward {
 public:
  ContextBackward(Executor& run, const ContextGroup& group, at::Tensor qkv_NE, const ContextSaved& saved,
                  const Positions& positions, const HeadShape& heads);
  // qkv_NE becomes its gradient, of rotated queries and keys.
  void run(const at::Tensor& dout_NQ);

 private:
  Executor& run_;
  ContextGroup group_;
  at::Tensor qkv_NE_;
  const ContextSaved& saved_;
  const Positions& positions_;
  HeadShape heads_;
  std::optional<KeyValueRing> ring_;
};

}  // namespace muster::nn
