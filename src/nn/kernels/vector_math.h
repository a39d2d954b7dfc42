// exp and its kin as straight-line arithmetic, so that loops over them vectorise under any instruction set.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace muster::nn::kernels {

// Each exported kernel is compiled for three instruction sets and bound at load time to the best of the
// machine.
#define MUSTER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

// e^x to about 1 ulp over [-87.3, 88.7], clamped outside; NaN stays NaN. Range reduction by ln 2 in two parts
// and a polynomial of degree 6 on [-ln2/2, ln2/2] (Cody and Waite, "Software Manual for the Elementary
// Functions", 1980, chapter 6; coefficients are the Taylor terms adjusted for the interval).
inline __attribute__((always_inline)) float exp_of(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.7f ? 88.7f : x;
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440054690583e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * r * r + r + 1.0f;
  // Twice half the exponent: 2^128 is not a float.
  const auto whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  return y * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((whole - half + 127) << 23);
}
inline __attribute__((always_inline)) double exp_of(double x) {
  return std::exp(x);
}

template <class T>
inline __attribute__((always_inline)) T sigmoid_of(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

}  // namespace muster::nn::kernels
