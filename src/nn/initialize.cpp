#include "nn/initialize.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {

void initialize(Executor& run, at::Tensor value, const spec::ParameterRow& row, uint64_t seed) {
  run.run("initialize", {0, static_cast<int64_t>(value.nbytes())}, [&] {
    if (row.initializer.kind == spec::Initializer::Kind::constant) {
      value.fill_(row.initializer.scale);
      return;
    }
    at::Tensor host = value.is_cpu() ? value : at::empty(value.sizes(), value.options().device(at::kCPU));
    with_type(host, [&](auto zero) {
      using T = decltype(zero);
      kernels::fill_normal(data<T>(host), host.numel(), 0, random_key(seed, row.name), row.initializer.scale);
    });
    if (!value.is_cpu()) value.copy_(host);
  });
}

}  // namespace muster::nn
