// The weights at the end of a run, as a Hugging Face folder.
#pragma once
#include "train/rank.h"
#include "train/run_folder.h"

namespace muster::train {

// Rank 0 writes; meanwhile every other rank calls hand_over_weights, and those that share rank 0's parameters
// hand their parts over, a tensor at a time. The folder does not depend on the layout.
void save_final_weights(Rank& rank, const spec::Job& job, const RunFolder& folder);
void hand_over_weights(Rank& rank);

}  // namespace muster::train
