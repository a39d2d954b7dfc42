// Sums gradients over the data axis, a bucket at a time, while backward goes on (Li et al. 2020, "PyTorch
// Distributed", section 3.2.3). Stage 0: every rank keeps the whole sum.
#pragma once
#include <vector>

#include "comm/communicator.h"
#include "nn/parameters.h"

namespace muster::train {

class Reducer {
 public:
  Reducer(nn::ParameterStore& parameters, comm::Communicator& data)
      : parameters_(&parameters), data_(&data) {}

  // The gradients of `unit` are complete: sends each bucket that this completes. Called in backward's order,
  // by all ranks of the data axis alike.
  void unit_done(int64_t unit);
  // Waits for every bucket. Throws Bug where a unit was never done.
  void finish();

 private:
  nn::ParameterStore* parameters_;
  comm::Communicator* data_;
  std::vector<comm::Pending> pending_;
};

}  // namespace muster::train
