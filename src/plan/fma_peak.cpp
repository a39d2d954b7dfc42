#include "plan/fma_peak.h"

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace muster::plan {
namespace {

constexpr int kChains = 12;  // enough to hide the latency of a multiply-add, few enough for 16 registers
constexpr int64_t kRounds = 2'000'000;
constexpr int kRepeats = 5;

// Vectors of `Bytes`, as the compiler's own type.
template <class T, int Bytes>
struct Vector {
  typedef T Type __attribute__((vector_size(Bytes)));
};

template <class T, int Bytes>
__attribute__((always_inline)) inline double chains(double seed) {
  using V = typename Vector<T, Bytes>::Type;
  V sums[kChains];
  for (int chain = 0; chain < kChains; ++chain) sums[chain] = V{} + static_cast<T>(chain);
  const V a = V{} + static_cast<T>(1 - 1e-7 * seed), b = V{} + static_cast<T>(1e-7 * seed);
  for (int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * a + b;
  double total = 0;
  for (const V& sum : sums) total += static_cast<double>(sum[0]);
  return total;
}

// One function an instruction set; called only where the processor has it.
template <class T>
__attribute__((target("arch=x86-64-v4,prefer-vector-width=512"))) double wide(double seed) {
  return chains<T, 64>(seed);
}
template <class T>
__attribute__((target("arch=x86-64-v3"))) double middle(double seed) {
  return chains<T, 32>(seed);
}
template <class T>
double narrow(double seed) {
  return chains<T, 16>(seed);
}

template <class T, int Bytes>
double rate(double (*run)(double)) {
  const Clock clock;
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double start = clock.seconds();
    volatile double kept = run(repeat + 1);
    (void)kept;
    const double flops = 2.0 * kChains * static_cast<double>(kRounds) * Bytes / sizeof(T);
    best = std::max(best, flops / (clock.seconds() - start));
  }
  return best;
}

template <class T>
double peak() {
  double best = rate<T, 16>(narrow<T>);
  if (__builtin_cpu_supports("x86-64-v3")) best = std::max(best, rate<T, 32>(middle<T>));
  if (__builtin_cpu_supports("x86-64-v4")) best = std::max(best, rate<T, 64>(wide<T>));
  return best;
}

}  // namespace

double fma_peak_float32() {
  return peak<float>();
}
double fma_peak_float64() {
  return peak<double>();
}

}  // namespace muster::plan
