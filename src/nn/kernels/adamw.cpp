#include <c10/util/BFloat16.h>

#include <bit>
#include <cmath>
#include <type_traits>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"

namespace muster::nn::kernels {
namespace {

using c10::BFloat16;

template <class T>
inline __attribute__((always_inline)) T widened(T x) {
  return x;
}
inline __attribute__((always_inline)) float widened(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16);
}

template <class S, class T>
inline __attribute__((always_inline)) S rounded(T x) {
  if constexpr (!std::is_same_v<S, BFloat16>) {
    return static_cast<S>(x);
  } else {  // to nearest, ties to even; an update with others than finite numbers is skipped
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
    return BFloat16(static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16), BFloat16::from_bits());
  }
}

// A's constants of AdamW.
template <class A>
struct Rule {
  A keep, beta1, beta2, scale, rate, root, eps;
};

template <class A, class T, class G, class S>
MUSTER_CLONES void adamw_range(T* value, const G* gradient, S* first, S* second, int64_t count, Rule<A> r) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const A g = static_cast<A>(widened(gradient[i])) * r.scale;
    const A m = r.beta1 * static_cast<A>(widened(first[i])) + (1 - r.beta1) * g;
    const A v = r.beta2 * static_cast<A>(widened(second[i])) + (1 - r.beta2) * g * g;
    first[i] = rounded<S>(m);
    second[i] = rounded<S>(v);
    value[i] =
        rounded<T>(static_cast<A>(widened(value[i])) * r.keep - r.rate * m / (std::sqrt(v) * r.root + r.eps));
  }
}

}  // namespace

template <class T, class G, class S>
void adamw(T* value, const G* gradient, S* first, S* second, int64_t count, const AdamW& rule) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto as = [](double x) { return static_cast<A>(x); };
  const Rule<A> r{as(1 - rule.learning_rate * rule.weight_decay),
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

#define MUSTER_ADAMW(T, G, S) template void adamw(T*, const G*, S*, S*, int64_t, const AdamW&)
MUSTER_ADAMW(float, float, float);
MUSTER_ADAMW(float, float, BFloat16);
MUSTER_ADAMW(float, BFloat16, float);
MUSTER_ADAMW(float, BFloat16, BFloat16);
MUSTER_ADAMW(BFloat16, float, float);
MUSTER_ADAMW(BFloat16, float, BFloat16);
MUSTER_ADAMW(BFloat16, BFloat16, float);
MUSTER_ADAMW(BFloat16, BFloat16, BFloat16);
MUSTER_ADAMW(double, double, BFloat16);
#undef MUSTER_ADAMW

}  // namespace muster::nn::kernels
