// The learning rate of an update: a function of its number alone, so that a resumed run cannot disagree
// (CASES B015).
#pragma once
#include <cstdint>

#include "spec/config/job.h"

namespace muster::train {

// Update `step` counts from 1. Warm-up: learning_rate * step / warmup_steps. After it, to
// minimum_learning_rate at the last step: "linear", "cosine" (Loshchilov and Hutter 2017, equation 5), or
// "wsd", which stays and then falls linearly over the last decay_steps (Hu et al. 2024, "MiniCPM", section
// 4).
double learning_rate(const spec::OptimizerConfig& optimizer, int64_t step, int64_t steps);

}  // namespace muster::train
