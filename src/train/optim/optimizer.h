// What turns gradients into an update: AdamW or SGD with momentum, over flat runs of parameters; or Muon for
// the blocks' matrices and AdamW for the rest.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/parameters.h"
#include "spec/config/job.h"
#include "train/optim/whole_matrices.h"

namespace muster::train {

class Optimizer {
 public:
  // Allocates the state (category optimizer), zero. `state`: its format, that of what is updated or a wider
  // one, or for AdamW bfloat16: moments that are read, updated in fp32 (float64 of float64) and rounded to
  // nearest. `matrices`: Muon's way to whole ones.
  Optimizer(const spec::OptimizerConfig& config, const nn::ParameterStore& parameters, nn::Executor& run,
            at::ScalarType state, std::optional<WholeMatrices> matrices = {});

  // Updates every segment's master (nn/parameters.h) with gradient / divisor, in the wider of their formats.
  // Gradients are used up. Under Muon collective over all ranks that hold the parameters.
  void step(nn::Executor& run, double learning_rate, double divisor);
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  // The states beside what a rank owns of one parameter, by name ("first", "second"), as views of its shape;
  // `value` is the parameter store's master_piece of it. Beside nothing there is nothing, under the same
  // names.
  using States = std::vector<std::pair<std::string, at::Tensor>>;
  States states_of(const spec::ParameterRow& row, const at::Tensor& value) const;

 private:
  // Parameters that are updated by one rule and decay alike, as the lists that the fused kernel takes.
  enum class Rule { adamw, sgd, muon };
  struct Group {
    Rule rule = Rule::adamw;
    double weight_decay = 0;
    std::vector<at::Tensor> values = {}, gradients = {}, first = {}, second = {};
  };
  size_t group_of(bool is_matrix, bool is_linear) const;
  int64_t state_count(Rule rule) const;
  void adamw(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void adamw_of_mixed_formats(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void sgd(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void muon(nn::Executor& run, Group& group, double learning_rate, double divisor);

  spec::OptimizerConfig config_;
  std::optional<WholeMatrices> matrices_;
  std::vector<Group> groups_;
  int64_t updates_ = 0;
};

}  // namespace muster::train
