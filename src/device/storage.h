// Memory that comes and goes under tensors that stay: views of a buffer are made once, and stand on whatever
// the buffer holds at the moment.
#pragma once
#include <ATen/core/Tensor.h>

#include "telemetry/step_record.h"

namespace muster::device {

// Frees the memory of `tensor` and of all its views. Shapes and views stay; until regrow, reading their data
// throws.
void drop(const at::Tensor& tensor);
// Gives a dropped tensor memory of its old size again, uninitialised, booked under `category`.
void regrow(const at::Tensor& tensor, telemetry::Category category);

}  // namespace muster::device
