#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

using c10::BFloat16;

// A's constants of AdamW.
template <class A>
struct Rule {
  A keep, beta1, beta2, scale, rate, root, eps;
};

template <class A, class T, class G, class S>
MUSTER_CLONES void adamw_range(T* value, const G* gradient, S* first, S* second, int64_t count, Rule<A> r) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const A g = static_cast<A>(wide(gradient[i])) * r.scale;
    const A m = r.beta1 * static_cast<A>(wide(first[i])) + (1 - r.beta1) * g;
    const A v = r.beta2 * static_cast<A>(wide(second[i])) + (1 - r.beta2) * g * g;
    first[i] = rounded<S>(static_cast<wide_t<S>>(m));
    second[i] = rounded<S>(static_cast<wide_t<S>>(v));
    value[i] =
        rounded<T>(static_cast<A>(wide(value[i])) * r.keep - r.rate * m / (std::sqrt(v) * r.root + r.eps));
  }
}

}  // namespace

template <class T, class G, class S>
void adamw(T* value, const G* gradient, S* first, S* second, int64_t count, const AdamW& rule) {
  using A = wide_t<T>;
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
