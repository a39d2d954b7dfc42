// What turns gradients into an update: AdamW or SGD with momentum, over flat runs of parameters; or Muon for
// the blocks' matrices and AdamW for the rest.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/parameters.h"
#include "spec/config/job.h"
#include "train/offload/state_file.h"
#include "train/optim/whole_matrices.h"

namespace muster::train {

// The state's format; the account that it is booked in, that of the device or host_optimizer; and the file
// that it passes through, if it is not in memory.
struct StatePlace {
  at::ScalarType format = at::kFloat;
  nn::Category home = nn::Category::optimizer;
  std::optional<StateFile::Options> file = {};
};

class Optimizer {
 public:
  // Allocates the state, zero. `state`: where it lives and its format, that of what is updated or a wider
  // one, or for AdamW bfloat16: moments that are read, updated in fp32 (float64 of float64) and rounded to
  // nearest. `matrices`: Muon's way to whole ones.
  Optimizer(const spec::OptimizerConfig& config, const nn::ParameterStore& parameters, nn::Executor& run,
            StatePlace state, std::optional<WholeMatrices> matrices = {});

  // Updates every segment's master (nn/parameters.h) with gradient / divisor, in the wider of their formats.
  // Gradients are used up. Under Muon collective over all ranks that hold the parameters.
  void step(nn::Executor& run, double learning_rate, double divisor);
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  // One state beside what a rank owns of one parameter, as a view of its shape. In a file: a shape without
  // memory, and what brings elements from the first on into a flat tensor, and out of one.
  struct State {
    std::string name;  // "first", "second"
    at::Tensor local;
    std::function<void(const at::Tensor&)> read = {}, write = {};
  };
  // `value` is the parameter store's master_piece of it. Beside nothing there is nothing, under the same
  // names.
  std::vector<State> states_of(const spec::ParameterRow& row, const at::Tensor& value) const;
  const StateFile* file() const { return file_.get(); }
  int64_t file_bytes() const { return file_ ? file_->file_bytes() : 0; }

 private:
  // Parameters that are updated by one rule and decay alike, as the lists that the fused kernel takes.
  enum class Rule { adamw, sgd, muon };
  struct Group {
    Rule rule = Rule::adamw;
    double weight_decay = 0;
    std::vector<at::Tensor> values = {}, gradients = {}, first = {}, second = {};
    std::vector<size_t> in_file = {};  // the number of each in the file
  };
  size_t group_of(bool is_matrix, bool is_linear) const;
  int64_t state_count(Rule rule) const;
  at::Tensor make_state(nn::Executor& run, const at::Tensor& value, const StatePlace& place) const;
  template <class Update>
  void for_each_part(nn::Executor& run, Group& group, Update&& update);
  void update(nn::Executor& run, Group& part, double learning_rate, double divisor);
  void adamw(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void adamw_of_mixed_formats(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void sgd(nn::Executor& run, Group& group, double learning_rate, double divisor);
  void muon(nn::Executor& run, Group& group, double learning_rate, double divisor);

  spec::OptimizerConfig config_;
  at::ScalarType format_;  // of the state
  std::optional<WholeMatrices> matrices_;
  std::vector<Group> groups_;
  std::unique_ptr<StateFile> file_;
  int64_t updates_ = 0;
};

}  // namespace muster::train
