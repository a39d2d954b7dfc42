#include "nn/ops/product.h"

#include <ATen/cpu/Utils.h>
#include <ATen/ops/mm.h>

#include "nn/wide.h"

namespace muster::nn {
namespace {

bool cpu_multiplies_bfloat16() {
  static const bool native = [] {
    const auto has = at::cpu::get_cpu_capabilities();
    const auto is = [&](const char* name) { return has.contains(name) && has.at(name).toBool(); };
    return is("avx512_bf16") || is("amx_bf16");
  }();
  return native;
}

bool library_takes(const at::Tensor& out, const at::Tensor& a) {
  return out.scalar_type() == a.scalar_type() &&
         (!is_narrow(a) || !out.is_cpu() || cpu_multiplies_bfloat16());
}

}  // namespace

void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  if (library_takes(out, a))
    at::mm_out(out, a, b);
  else if (is_narrow(out))
    out.copy_(at::mm(wide(a), wide(b)));
  else
    at::mm_out(out, wide(a), wide(b));
}

void add_product(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  if (library_takes(out, a))
    out.addmm_(a, b);
  else
    in_wide(out, [&](const at::Tensor& sum) { sum.addmm_(wide(a), wide(b)); });
}

}  // namespace muster::nn
