// What the ranks of a run agree on between steps: one small message an axis a step, sent while the next step
// computes, so that no step waits for it.
//
// A world of several axes is crossed one axis a step, like a shift register: what is put in after step s
// comes out, the same on all ranks, after step s + (axes of more than one rank). A decision is therefore that
// many steps late, and never costs a round trip.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "comm/communicator.h"

namespace muster::train {

// Of each entry the largest of all ranks' counts.
struct Ballot {
  int64_t stop_signal = 0;  // that a rank was asked to stop with
  int64_t save_now = 0;     // rank 0: it is time for a checkpoint
  int64_t failed = 0;       // the newest save that a rank failed in, counted from 1
  int64_t behind = 0;       // minus the newest save whose part a rank has written: of the slowest rank
  int64_t durable = 0;      // rank 0: the newest save that is committed
};

class Votes {
 public:
  // `device`: where the groups' tensors live.
  Votes(comm::Groups& groups, at::Device device);
  ~Votes();

  // After each step: puts this rank's ballot in, and takes out what all ranks put in some steps ago; nothing
  // in the first ones. Collective over the world.
  std::optional<Ballot> exchange(const Ballot& own);
  // Waits for everyone's, now; those under way are dropped. Collective over the world.
  Ballot agree(const Ballot& own);
  // Waits for the messages under way, before the groups end. Collective over the world.
  void drain();

 private:
  struct Round;
  comm::Groups* groups_;
  at::Device device_;
  std::vector<spec::Axis> axes_;
  std::vector<std::unique_ptr<Round>> under_way_;  // an axis each
};

}  // namespace muster::train
