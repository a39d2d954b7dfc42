// Measures this machine into a hardware file.
#pragma once
#include <functional>
#include <string>

#include "spec/hardware/hardware.h"

namespace muster::plan {

// Dense peaks of all cores: float32 and float64 from register arithmetic (fma_peak.h), bfloat16 from the best
// of several matmuls; memory and its bandwidth as the best of several large copies (bytes read and written).
// Takes some seconds; other load on the machine makes figures too low. `say` is told of each as it comes.
spec::Hardware probe(const std::function<void(const std::string&)>& say);

// The figures as a hardware file (spec/hardware).
std::string to_toml(const spec::Hardware& hardware);

}  // namespace muster::plan
