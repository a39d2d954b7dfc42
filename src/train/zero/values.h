// Whole values for ranks that own pieces: gathers the buckets among those that share a copy, in time for
// their use.
//   Wholes stay (stages 1 and 2): an update leaves them stale; the next walk through the model starts all
//   gathers at its beginning, and waits for each at its first use.
//   Only pieces stay (stage 3): a unit is gathered before its use, the next one while it is used, and goes
//   after it unless it is among the next two uses (Zhao et al. 2023, "PyTorch FSDP", section 3.3). At most
//   two units beside the last one are there at a time.
// Without peers nothing happens. Collective over the peers.
#pragma once
#include <vector>

#include "comm/communicator.h"
#include "nn/parameters.h"
#include "schedule/action.h"

namespace muster::train {

// The units whose values the model uses in these actions, in order (nn/unit_access.h): all of them forward,
// and the blocks backward.
std::vector<int64_t> uses_of(const std::vector<schedule::Action>& actions, int64_t units);

class Values {
 public:
  explicit Values(const nn::ParameterStore& parameters);

  // Before a walk: the units that it will use, in order.
  void begin(std::vector<int64_t> uses);
  void use(int64_t unit);
  void leave(int64_t unit);
  // The pieces were updated.
  void changed() { stale_ = true; }

 private:
  void gather(size_t bucket);
  void fetch(size_t bucket);
  bool is_soon(int64_t unit) const;

  const nn::ParameterStore* parameters_;
  bool stale_ = true;
  std::vector<comm::Pending> gathers_;  // by bucket
  std::vector<bool> is_there_;          // by bucket: a whole that comes and goes
  std::vector<int64_t> uses_;
  size_t next_ = 0;  // of uses_
};

}  // namespace muster::train
