// What turns gradients into an update: AdamW or SGD with momentum, over flat runs of parameters.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "nn/parameters.h"
#include "spec/config/job.h"

namespace muster::train {

class Optimizer {
 public:
  // Allocates the state (category optimizer), zero. `state`: its format, that of the parameters, or for AdamW
  // bfloat16: moments that are read, updated in the parameters' format and rounded to nearest.
  Optimizer(const spec::OptimizerConfig& config, const nn::ParameterStore& parameters, nn::Executor& run,
            at::ScalarType state);

  // Updates every parameter with gradient / divisor. Gradients are used up.
  void step(nn::Executor& run, double learning_rate, double divisor);
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  // The states beside what a rank owns of one parameter, by name ("first", "second"), as views of its shape;
  // `value` is the parameter store's view of it. Beside nothing there is nothing, under the same names.
  std::vector<std::pair<std::string, at::Tensor>> states_of(const at::Tensor& value) const;

 private:
  // Parameters that decay alike, as the lists that the fused kernel takes.
  struct Group {
    double weight_decay = 0;
    std::vector<at::Tensor> values, gradients, first, second;
  };
  std::vector<std::pair<std::string, at::Tensor>> states_of_nothing(const at::Tensor& none) const;
  void adamw(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void adamw_of_rounded_moments(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void sgd(nn::Executor& run, Group& group, double learning_rate, double divisor);

  spec::OptimizerConfig config_;
  std::vector<Group> groups_;
  int64_t updates_ = 0;
};

}  // namespace muster::train
