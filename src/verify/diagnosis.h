// From a figure that is wrong to what may have made it so: a parameter and an axis of the mesh.
#pragma once
#include <string>

#include "spec/config/job.h"
#include "verify/witness.h"

namespace muster::verify {

// Whether `measured` is `expected` times or divided by the size of an axis: "2 times what it should be: added
// up over the tensor axis, whose ranks hold the whole". Empty where it is not.
std::string diagnose_sum(const spec::LayoutConfig& layout, const at::Tensor& expected,
                         const at::Tensor& measured, double tolerance);
// Whether the norm has the squares of one parameter, or of all that an axis holds alike, as often as an axis
// is long: "counts model.norm.weight 2 times, once a rank of the tensor axis". Empty where it has not.
std::string diagnose_norm(const spec::Job& job, const Witness& expected, double measured_norm,
                          double tolerance);

}  // namespace muster::verify
