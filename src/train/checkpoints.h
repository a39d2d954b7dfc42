// The checkpoints of a run as its loop meets them: going on from one, saving one, being asked to stop.
#pragma once
#include "checkpoint/set/save.h"
#include "launch/stop_request.h"
#include "train/state.h"

namespace muster::train {

class Checkpoints {
 public:
  // `root`: the run's folder of checkpoints, the same on all ranks.
  Checkpoints(Rank& rank, const spec::Job& job, fs::path root, const Log& log);

  // Fills the rank from the newest valid checkpoint, and returns its step; 0 where there is none. Collective.
  int64_t resume();
  // Before the first step of a run that saves: takes the run's next generation. Collective.
  void claim();

  bool is_on() const { return job_.checkpoint.every > 0; }
  bool is_due(int64_t step) const { return is_on() && step % job_.checkpoint.every == 0; }
  // Saves the state after update `step`; a save that fails is told of and given up. Collective.
  checkpoint::SaveOutcome save(int64_t step);
  // The signal that one of the ranks was asked to stop with, or 0. Collective where checkpoints are on, and
  // else nothing is caught.
  int stop_signal();

  int64_t newest_step() const { return newest_step_; }       // durable, of this process or resumed from
  const std::string& contract() const { return contract_; }  // under which the run went on; empty: it did not

 private:
  Rank& rank_;
  const spec::Job& job_;
  fs::path root_;
  const Log& log_;
  checkpoint::PosixStorage storage_;
  checkpoint::Assembly assembly_;
  checkpoint::State state_;
  std::optional<checkpoint::SetName> parent_;
  std::optional<checkpoint::Saver> saver_;
  std::optional<launch::StopRequest> stop_;
  int64_t newest_step_ = 0;
  std::string contract_;
};

}  // namespace muster::train
