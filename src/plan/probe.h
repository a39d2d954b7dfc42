// Measures this machine into a hardware file.
#pragma once
#include <functional>
#include <string>

#include "spec/hardware/hardware.h"

namespace muster::plan {

// Dense peaks as the best of several square matmuls on all cores (float32, float64, bfloat16), memory and its
// bandwidth as the best of several large copies (bytes read and written). Takes some seconds; other load on
// the machine makes it too low. `say` is told of each figure as it comes.
spec::Hardware probe(const std::function<void(const std::string&)>& say);

// The figures as a hardware file (spec/hardware).
std::string to_toml(const spec::Hardware& hardware);

}  // namespace muster::plan
