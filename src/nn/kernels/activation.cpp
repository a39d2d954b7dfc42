#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;

template <class T>
MUSTER_CLONES void swiglu_rows(T* h, const T* gate_up, int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row, h += size, gate_up += 2 * size)
    for (int64_t i = 0; i < size; ++i) {
      const wide_t<T> gate = wide(gate_up[i]);
      h[i] = rounded<T>(gate * sigmoid_of(gate) * wide(gate_up[size + i]));
    }
}

template <class T>
MUSTER_CLONES void swiglu_backward_rows(T* gate_up, T* dh, int64_t rows, int64_t size) {
  using W = wide_t<T>;
  for (int64_t row = 0; row < rows; ++row, dh += size, gate_up += 2 * size) {
    T* __restrict gate = gate_up;
    T* __restrict up = gate_up + size;
    T* __restrict d = dh;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      const W g = wide(gate[i]), u = wide(up[i]), dh_i = wide(d[i]);
      const W s = sigmoid_of(g);
      const W silu = g * s;
      const W dsilu = dh_i * u;
      const W dup = dh_i * silu;
      d[i] = rounded<T>(silu * u);
      gate[i] = rounded<T>(dsilu * (s + silu * (W(1) - s)));
      up[i] = rounded<T>(dup);
    }
  }
}

// tanh(z) = 1 - 2 / (e^2z + 1)
template <class T>
inline __attribute__((always_inline)) T tanh_of(T z) {
  return T(1) - T(2) / (exp_of(T(2) * z) + T(1));
}

template <class T>
MUSTER_CLONES void gelu_range(T* __restrict h, const T* __restrict a, int64_t count) {
  using W = wide_t<T>;
  for (int64_t i = 0; i < count; ++i) {
    const W x = wide(a[i]);
    h[i] = rounded<T>(W(0.5) * x * (W(1) + tanh_of(W(kGeluScale) * (x + W(kGeluCube) * x * x * x))));
  }
}

template <class T>
MUSTER_CLONES void gelu_backward_range(T* __restrict a, T* __restrict dh, int64_t count) {
  using W = wide_t<T>;
  for (int64_t i = 0; i < count; ++i) {
    const W x = wide(a[i]), d = wide(dh[i]);
    const W t = tanh_of(W(kGeluScale) * (x + W(kGeluCube) * x * x * x));
    const W inner = W(kGeluScale) * (W(1) + W(3 * kGeluCube) * x * x);
    dh[i] = rounded<T>(W(0.5) * x * (W(1) + t));
    a[i] = rounded<T>(d * (W(0.5) * (W(1) + t) + W(0.5) * x * (W(1) - t * t) * inner));
  }
}

}  // namespace

template <class T>
void swiglu(T* h, const T* gate_up, int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    swiglu_rows(h + begin * size, gate_up + begin * 2 * size, end - begin, size);
  });
}

template <class T>
void swiglu_backward(T* gate_up, T* dh, int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    swiglu_backward_rows(gate_up + begin * 2 * size, dh + begin * size, end - begin, size);
  });
}

template <class T>
void gelu(T* h, const T* a, int64_t count) {
  over_rows(count, 1, [=](int64_t begin, int64_t end) { gelu_range(h + begin, a + begin, end - begin); });
}

template <class T>
void gelu_backward(T* a, T* dh, int64_t count) {
  over_rows(count, 1,
            [=](int64_t begin, int64_t end) { gelu_backward_range(a + begin, dh + begin, end - begin); });
}

MUSTER_INSTANTIATE(swiglu);
MUSTER_INSTANTIATE(swiglu_backward);
MUSTER_INSTANTIATE(gelu);
MUSTER_INSTANTIATE(gelu_backward);

}  // namespace muster::nn::kernels
