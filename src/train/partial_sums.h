// The sums over the tensor axis that gradients still need after backward: those of parameters that every rank
// of it holds but whose rows it shares (sequence parallelism), and of key-value heads that neighbours share.
// Which they are is the parameter table's to say (spec/model/gradient_placement.h).
#pragma once
#include <vector>

#include "comm/communicator.h"
#include "nn/parameters.h"
#include "spec/config/job.h"

namespace muster::train {

class PartialSums {
 public:
  PartialSums(const nn::ParameterStore& parameters, const spec::LayoutConfig& layout, const spec::Mesh& mesh,
              comm::Communicator& tensor);

  // Once a step, when backward is done and the data axis has its sums. All gradients of a kind travel as one:
  // an all-reduce for those that the whole axis shares; two all-to-alls for those that neighbours share, the
  // first to sum a slice on each, the second to hand the sums round. Collective over the tensor axis.
  void run(nn::Executor& run);

 private:
  // Gradients laid side by side.
  struct Joined {
    std::vector<at::Tensor> gradients;
    int64_t elements = 0;
    void add(const at::Tensor& gradient);
    // `flat` may be longer.
    void copy_to(nn::Executor& run, const at::Tensor& flat) const;
    void copy_from(nn::Executor& run, const at::Tensor& flat) const;
  };
  void sum_over_axis(nn::Executor& run);
  void sum_over_neighbours(nn::Executor& run);
  // All-to-all among the ranks that share heads, `count` elements to each.
  comm::Pending exchange(at::Tensor out, at::Tensor in, int64_t count);

  comm::Communicator* tensor_;
  Joined whole_, shared_;
  at::ScalarType format_;
  int64_t sharers_ = 1;
};

}  // namespace muster::train
