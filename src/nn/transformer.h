// The decoder as one stage: embeddings, blocks, final norm and the loss over the vocabulary, for every
// family, whole or shared by a tensor group. Forward and backward are explicit: what is kept, where it dies
// and when a unit's gradients are complete is read off the code, and is the same on `meta`.
#pragma once
#include <vector>

#include "nn/layers/attention.h"
#include "nn/layers/mlp.h"
#include "nn/ops/loss.h"
#include "nn/parameters.h"
#include "nn/rotary.h"
#include "nn/tensor_group.h"
#include "nn/unit_access.h"

namespace muster::nn {

// N = sequences * length rows of int32 ids; a target < 0 is not counted.
struct MicroBatch {
  at::Tensor ids_N, targets_N;
  int64_t length = 0;
  int64_t first_sample = 0;  // of its first sequence within the step's global batch
  uint64_t step = 0;         // numbers the random draws
};

class Transformer {
 public:
  struct Options {
    double dropout = 0;
    uint64_t seed = 0;
    int64_t loss_chunk_tokens = 0;  // 0: chosen
    int64_t length = 0;             // of a training sequence
    spec::Recompute recompute = {};
    int64_t rows_in_flight = 0;  // of all micro-batches between their forward and their backward
  };
  // `parameters` are this rank's parts of a model that `group` shares.
  Transformer(const spec::ModelSpec& model, TensorGroup group, ParameterStore& parameters, Executor& run,
              Options options);

  // What a micro-batch leaves between forward and backward.
  struct Saved {
    std::vector<AttentionLayer::Saved> attention;
    std::vector<MlpLayer::Saved> mlp;
    at::Tensor residual_MH, dnormed_MH;
    NormSaved norm;
  };

  // Adds the sum of the micro-batch's losses to loss_sum (fp64, one element); the head's gradient is written
  // here. `access` is told of each unit on the way.
  Saved forward(Executor& run, const MicroBatch& batch, at::Tensor loss_sum, UnitAccess& access);
  // Writes every other gradient.
  void backward(Executor& run, const MicroBatch& batch, Saved& saved, UnitAccess& access);
  // The loss alone, without dropout: nothing is kept and no gradient is touched.
  void evaluate(Executor& run, const MicroBatch& batch, at::Tensor loss_sum, UnitAccess& access);
  // Logits of the last position of one sequence [1, V]. For a rank alone.
  at::Tensor next_token_logits(Executor& run, const at::Tensor& ids_N);

 private:
  at::Tensor embedded(Executor& run, const MicroBatch& batch, bool training);
  int64_t rows_here(const MicroBatch& batch) const { return batch.ids_N.size(0) / group_.row_shares(); }
  // The stream after all blocks; keeps into `saved` unless null.
  at::Tensor through_blocks(Executor& run, const MicroBatch& batch, bool training, Saved* saved,
                            UnitAccess& access);
  bool is_tied() const { return head_ == token_; }
  int64_t last_unit() const { return static_cast<int64_t>(attention_.size()) + 1; }
  // The end of the model; the gradient's too where dnormed_MH is defined.
  void loss(Executor& run, const MicroBatch& batch, at::Tensor loss_sum, at::Tensor dnormed_MH,
            const at::Tensor& normed_MH);
  Dropout dropout_at(const char* place, int64_t layer, const MicroBatch& batch, bool training) const;
  const RotaryTable& rotary_for(Executor& run, int64_t length);
  std::vector<Keep> plan_of(const Executor& run, const Options& options) const;
  void backward_layer(Executor& run, const MicroBatch& batch, int64_t layer, const at::Tensor& d_MH,
                      Saved& saved);

  spec::ModelSpec model_;
  TensorGroup group_;
  Options options_;
  RotaryTable rotary_;
  Weight* token_ = nullptr;
  Weight* position_ = nullptr;
  Weight* head_ = nullptr;
  VocabularyPart vocabulary_;
  Norm final_norm_;
  std::vector<AttentionLayer> attention_;
  std::vector<MlpLayer> mlp_;
  std::vector<Keep> keep_;  // by layer
};

}  // namespace muster::nn
