// Sums gradients over the ranks that see other tokens, a bucket at a time, while backward goes on (Li et al.
// 2020, "PyTorch Distributed", section 3.2.3). Where the state is shared, every rank keeps the sum of its own
// piece (Rajbhandari et al. 2020, "ZeRO", section 5.2): a reduce-scatter among those that share one copy,
// then an all-reduce of the piece over the copies (Zhang et al. 2022, "MiCS", section 3.4).
//   Whole gradients stay (stages 0 and 1): micro-batches add up in them, and they are reduced once a step.
//   Only pieces stay (stages 2 and 3): a whole gradient lives from backward's first write to its
//   reduce-scatter. That comes once a micro-batch, and the pieces add up; or once a step, and micro-batches
//   add up in the whole.
#pragma once
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "nn/parameters.h"

namespace muster::train {

class Reducer {
 public:
  // `copies`: the ranks with the same piece in other copies; where nothing is shared, all that see other
  // tokens. `each_micro_batch`: where only pieces stay, they are reduced each time.
  Reducer(nn::ParameterStore& parameters, comm::Communicator& copies, nn::Executor& run,
          bool each_micro_batch = true);

  // The gradients of `unit` are about to be written: makes room for them.
  void use(int64_t unit);
  // The gradients of `unit` are complete for this micro-batch, `last` of the step: sends what this completes.
  // Called in backward's order, by all ranks alike.
  void unit_done(int64_t unit, bool last);
  // Waits for the bucket under way, so that its memory goes.
  void settle();
  // Waits for every bucket. Throws Bug where a unit was never done.
  void finish();

 private:
  // The one reduce-scatter under way: its scratch is as large as its bucket.
  struct Flight {
    size_t bucket = 0;
    bool last = false;
    at::Tensor sum;  // to be added to the piece; undefined: it is the piece
    comm::Pending pending;
  };
  void scatter(size_t bucket, bool last);
  void sum_over_copies(size_t bucket, at::Tensor gradient);

  nn::ParameterStore* parameters_;
  comm::Communicator* copies_;
  nn::Executor* run_;
  bool each_micro_batch_;
  std::vector<bool> is_there_, has_sum_;  // by bucket: a whole that comes and goes; a piece of this step
  std::optional<Flight> flight_;
  std::vector<comm::Pending> pending_;
};

}  // namespace muster::train
