// A parameter as a layer sees it: value and gradient, views into flat buffers that someone else owns.
#pragma once
#include <ATen/core/Tensor.h>

#include "spec/model/parameter_table.h"

namespace muster::nn {

struct Weight {
  at::Tensor value;
  at::Tensor gradient;  // of the value's format; of a bfloat16 value, in that or in fp32
  // False at the start of a step: the first contribution overwrites, later ones add, so that nothing is
  // zeroed.
  bool gradient_written = false;
  bool stored_in_out = false;  // a matrix kept [in, out]

  bool defined() const { return value.defined(); }
  int64_t outputs() const { return value.size(stored_in_out ? 1 : 0); }
  // Whether the contribution that is about to be made must add; the gradient counts as written from now on.
  bool accumulate() {
    const bool add = gradient_written;
    gradient_written = true;
    return add;
  }
};

}  // namespace muster::nn
