// Splits rows over the intra-op threads. Work of few elements stays on the calling thread.
#pragma once
#include <ATen/Parallel.h>

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>

namespace muster::nn::kernels {

constexpr int64_t kGrain = 16384;  // elements that pay for waking a thread

template <class Body>
void over_rows(int64_t rows, int64_t size, Body&& body) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size)), body);
}

}  // namespace muster::nn::kernels

// Instantiates a kernel for the types that it is declared for.
#define MUSTER_INSTANTIATE(kernel)                  \
  template decltype(kernel<float>) kernel<float>;   \
  template decltype(kernel<double>) kernel<double>; \
  template decltype(kernel<c10::BFloat16>) kernel<c10::BFloat16>
// For the types of a parameter and of its gradient.
#define MUSTER_INSTANTIATE_WITH_GRADIENT(kernel)                                \
  template decltype(kernel<float, float>) kernel<float, float>;                 \
  template decltype(kernel<double, double>) kernel<double, double>;             \
  template decltype(kernel<c10::BFloat16, float>) kernel<c10::BFloat16, float>; \
  template decltype(kernel<c10::BFloat16, c10::BFloat16>) kernel<c10::BFloat16, c10::BFloat16>
