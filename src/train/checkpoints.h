// The checkpoints of a run as its loop meets them: going on from one, saving one beside training or at once,
// being asked to stop.
//
// A save in the background: after a step every rank copies what it writes (Snapshot) and goes on; a thread
// writes it. The groups stay training's: what the ranks must agree on (all have written; rank 0 committed;
// one failed) travels in the votes between steps (votes.h). One save is under way at a time; another one that
// is due waits for it, aloud.
#pragma once
#include "checkpoint/set/background.h"
#include "checkpoint/set/save.h"
#include "checkpoint/set/snapshot.h"
#include "launch/stop_request.h"
#include "train/save_schedule.h"
#include "train/state.h"
#include "train/votes.h"

namespace muster::train {

class Checkpoints {
 public:
  // `root`: the run's folder of checkpoints, the same on all ranks.
  Checkpoints(Rank& rank, const spec::Job& job, fs::path root, const Log& log);
  // A save under way is given up, by name.
  ~Checkpoints();

  // Fills the rank from the newest valid checkpoint, and returns its step; 0 where there is none. Takes the
  // run's next generation before it looks, so that what it finds stays. Collective.
  int64_t resume();
  // Before the first step: claims the run from the step that it stands at, if it saves or was resumed.
  // Collective.
  void claim();

  // What is to be done after a step; all ranks get the same.
  struct Due {
    bool save = false;
    int stop_signal = 0;             // that a rank was asked to stop with
    std::optional<int64_t> durable;  // the step of a save that has become so since the last look (rank 0)
  };
  // After update `step`: votes, and moves the save under way on. Collective.
  Due look(int64_t step);
  // Saves the state after update `step`, or begins to. One that fails is told of and given up. Collective.
  void save(int64_t step);
  // Waits for the save under way, and for all messages. Collective.
  void finish();

  int64_t newest_step() const { return newest_step_; }       // durable, of this process or resumed from
  const std::string& contract() const { return contract_; }  // under which the run went on; empty: it did not

 private:
  // The save that the background writes.
  struct UnderWay {
    int64_t number = 0;
    int64_t step = 0;
    double requested_seconds = 0;
    std::shared_ptr<checkpoint::Save> save;
    bool commits = false;       // rank 0: all have written
    bool acknowledged = false;  // rank 0: it is durable, and the log says so
  };

  void take();
  void first_rank_claims(const std::function<void()>& body);
  checkpoint::Manifest facts(int64_t step) const;
  void read_data();
  void save_at_once(int64_t step);
  void save_beside(int64_t step);
  void in_background(std::function<void()> body);
  void collect();
  Ballot ballot() const;
  void advance(const Ballot& agreed);
  void acknowledge(const checkpoint::SetName& name, int64_t bytes, double seconds);
  void give_up();
  bool grace_is_over() const;
  void read_stop(int64_t signal);
  bool is_on() const { return saver_.has_value(); }
  bool leads() const { return rank_.number() == 0; }
  double now() const { return rank_.executor().clock().seconds(); }

  Rank& rank_;
  const spec::Job& job_;
  fs::path root_;
  const Log& log_;
  checkpoint::PosixStorage storage_;
  checkpoint::Assembly assembly_;
  checkpoint::State state_;
  std::optional<checkpoint::SetName> parent_;
  checkpoint::Claim claim_;                     // generation 0: none
  std::vector<checkpoint::ManifestData> data_;  // rank 0, once it was needed
  std::optional<checkpoint::Saver> saver_;
  std::optional<launch::StopRequest> stop_;
  std::optional<SaveSchedule> schedule_;
  Votes votes_;
  int64_t newest_step_ = 0;
  std::string contract_;
  std::optional<int64_t> news_;  // a step that became durable and that nobody looked at yet
  std::optional<double> stop_before_;

  checkpoint::Snapshot snapshot_;
  std::optional<UnderWay> under_way_;
  int64_t begun_ = 0, written_ = 0, durable_ = 0, failed_ = 0;  // numbers of saves
  bool wishes_ = false, wish_is_out_ = false;                   // rank 0: it is time; all have been told
  checkpoint::Failure failure_;                                 // written by the background
  int64_t committed_bytes_ = 0;
  std::optional<checkpoint::Background> background_;  // ends first: it uses what stands above
};

}  // namespace muster::train
