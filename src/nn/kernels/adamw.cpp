#include <bit>
#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"

namespace muster::nn::kernels {
namespace {

inline __attribute__((always_inline)) float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
// To nearest, ties to even; moments are finite, since an update with others is skipped.
inline __attribute__((always_inline)) uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// T's constants of AdamW.
template <class T>
struct Rule {
  T keep, beta1, beta2, scale, rate, root, eps;
};

template <class T>
MUSTER_CLONES void adamw_range(T* value, const T* gradient, uint16_t* first, uint16_t* second, int64_t count,
                               Rule<T> r) {
  for (int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * r.scale;
    const T m = r.beta1 * static_cast<T>(from_bfloat16(first[i])) + (1 - r.beta1) * g;
    const T v = r.beta2 * static_cast<T>(from_bfloat16(second[i])) + (1 - r.beta2) * g * g;
    first[i] = to_bfloat16(static_cast<float>(m));
    second[i] = to_bfloat16(static_cast<float>(v));
    value[i] = value[i] * r.keep - r.rate * m / (std::sqrt(v) * r.root + r.eps);
  }
}

}  // namespace

template <class T>
void adamw(T* value, const T* gradient, uint16_t* first, uint16_t* second, int64_t count, const AdamW& rule) {
  const auto as = [](double x) { return static_cast<T>(x); };
  const Rule<T> r{as(1 - rule.learning_rate * rule.weight_decay),
                  as(rule.beta1),
                  as(rule.beta2),
                  as(1 / rule.divisor),
                  as(rule.learning_rate / rule.correction1),
                  as(1 / std::sqrt(rule.correction2)),
                  as(rule.eps)};
  over_rows(count, 1, [=](int64_t begin, int64_t end) {
    adamw_range(value + begin, gradient + begin, first + begin, second + begin, end - begin, r);
  });
}

MUSTER_INSTANTIATE(adamw);

}  // namespace muster::nn::kernels
