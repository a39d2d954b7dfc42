// The arithmetic limit of a core.
#pragma once

namespace muster::plan {

// FLOP/s of one core in fp32 or fp64: independent chains of fused multiply-adds on registers alone, with the
// widest vectors that the processor has; the best of several runs. What no matmul can exceed.
double fma_peak_float32();
double fma_peak_float64();

}  // namespace muster::plan
