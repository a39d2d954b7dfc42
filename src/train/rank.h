// One rank: everything that a process holds of a run, built from the spec, and the step that it runs. On
// `meta` with groups that have no peers it is a rehearsal.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/transformer.h"
#include "schedule/action.h"
#include "spec/mesh/piece.h"
#include "telemetry/state_file_figures.h"
#include "train/feed.h"
#include "train/optim/update.h"
#include "train/partial_sums.h"
#include "train/zero/reducer.h"
#include "train/zero/values.h"

namespace muster::train {

struct StepResult : UpdateResult {
  double learning_rate = 0;
  double data_wait_seconds = 0;
  double exposed_communication_seconds = 0;               // that the step stood still for messages
  std::optional<telemetry::StateFileFigures> state_file;  // of the optimizer's state, since the last step
};

// Told as a step goes through its phases: "forward", "backward", "reduce", "update".
using PhaseObserver = std::function<void(const char* phase, int64_t step, int64_t micro_batch)>;

class Rank {
 public:
  // Allocates and initialises everything (build_rank.cpp). `job` is resolved and checked; collective over the
  // mesh.
  Rank(const spec::Job& job, const spec::Mesh& mesh, int64_t rank, comm::Groups groups, at::Device device,
       const Clock& clock);

  // Update number `step`, from 1: runs the schedule's actions. Collective over the mesh.
  StepResult run_step(const Feed& feed, int64_t step, const PhaseObserver& observe = {});
  // The mean loss over the target tokens of `batches` global batches, from batch 0. Collective over the mesh.
  double evaluate(const Feed& feed, int64_t batches);

  const spec::Mesh& mesh() const { return mesh_; }
  int64_t number() const { return number_; }
  nn::Executor& executor() { return run_; }
  nn::ParameterStore& parameters() { return *parameters_; }
  const nn::ParameterStore& parameters() const { return *parameters_; }
  nn::Transformer& model() { return *model_; }
  const spec::ParameterTable& table() const { return table_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  Optimizer& optimizer() { return *optimizer_; }
  comm::Groups& groups() { return groups_; }
  // What model.weights was read from, with the id of a checkpoint; empty: values were initialised.
  const std::string& weights_id() const { return weights_id_; }
  // Which elements of a parameter this rank owns; they lie in its pieces (nn/parameters.h) from their start,
  // and padding of the parameter behind them.
  spec::Piece owned_piece(const spec::ParameterRow& row) const;
  // The whole of a logical tensor, of which `piece` is what this rank owns of `row` (parameters().value_piece
  // and the like). Collective over the ranks that share a copy of the state, and over the tensor axis.
  at::Tensor whole(const spec::ParameterRow& row, const at::Tensor& piece);

  // While it lives, operators, messages and memory are written into `record`.
  class Recording {
   public:
    Recording(Rank& rank, telemetry::StepRecord& record);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    Rank& rank_;
  };

 private:
  struct InFlight;
  class Access;
  void load_or_initialize();
  void initialize();
  void load();
  nn::Sharding sharding();
  nn::TensorGroup tensor_group() {
    return nn::TensorGroup(groups_.on(spec::Axis::tensor), job_.layout.sequence_parallel);
  }
  nn::ContextGroup context_group() { return {groups_.on(spec::Axis::context), job_.layout.context_method}; }
  at::Tensor part(const spec::ParameterRow& row, const at::Tensor& piece);
  void forward(const Feed& feed, const schedule::Action& action, InFlight& flight);
  void backward(const schedule::Action& action, InFlight& flight);

  spec::Job job_;
  spec::Mesh mesh_;
  int64_t number_;
  comm::Groups groups_;
  nn::Executor run_;
  spec::ParameterTable table_;
  std::string weights_id_;
  std::unique_ptr<nn::ParameterStore> parameters_;
  std::unique_ptr<nn::Transformer> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Values> values_;
  std::unique_ptr<PartialSums> partial_sums_;
  std::vector<schedule::Action> actions_;
  std::vector<int64_t> uses_;                    // of units' values in a step, in order
  telemetry::StateFileFigures state_file_told_;  // until the last step
};

}  // namespace muster::train
