// The ordered update, the same in every layout:
//   accumulate all micro-batches -> reduce -> unscale -> finite check over all ranks -> global norm over the
//   logical gradient, each logical element once -> clip -> update every shard, or skip everywhere.
#pragma once
#include "comm/communicator.h"
#include "nn/parameters.h"
#include "nn/tensor_group.h"
#include "train/optim/optimizer.h"

namespace muster::train {

// Sums over a step's target tokens: of losses, and of their count. One small message makes them global.
class Totals {
 public:
  Totals(nn::Executor& run, comm::Communicator& data);
  // fp64, one element: where forward adds its losses.
  at::Tensor loss_sum() const { return sums_.narrow(0, 0, 1); }
  void add_tokens(int64_t tokens) { tokens_ += tokens; }
  // Sends this rank's sums; all forwards are done. Collective over the data axis.
  void start(nn::Executor& run);
  struct Values {
    double loss_sum = 0;
    int64_t tokens = 0;
  };
  Values wait(nn::Executor& run);

 private:
  comm::Communicator* data_;
  at::Tensor sums_;
  int64_t tokens_ = 0;
  comm::Pending pending_;
};

struct UpdateResult {
  double loss = 0;       // mean over the global batch's target tokens
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;    // global
  bool skipped = false;  // no target token, or a gradient that is not finite
};

// Called by all ranks once every bucket is reduced (reducer.h); `group` shares the parameters.
// `gradient_clip` 0: no clipping.
UpdateResult ordered_update(nn::Executor& run, const nn::TensorGroup& group,
                            const nn::ParameterStore& parameters, Totals& totals, Optimizer& optimizer,
                            double learning_rate, double gradient_clip);

}  // namespace muster::train
