// Text out of a model, a token at a time.
#pragma once
#include <functional>
#include <vector>

#include "nn/transformer.h"

namespace muster::train {

struct SamplingOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: the likeliest token each time
  int64_t top_k = 0;         // 0: all
  double top_p = 1;          // the smallest set of likeliest tokens with this share
  uint64_t seed = 1;
};

// Draws from the softmax of logits / temperature; `draw` numbers the draw under the seed.
int32_t sample_token(const at::Tensor& logits_1V, const SamplingOptions& options, uint64_t draw);

// Continues `ids` (not empty); `token` is told of each new id, and false from it stops. The model sees at
// most the last `context` ids. Every position is computed again for each token: for looking at a model, not
// for serving one.
void generate(nn::Executor& run, nn::Transformer& model, std::vector<int32_t> ids, int64_t context,
              const SamplingOptions& options, const std::function<bool(int32_t)>& token);

}  // namespace muster::train
