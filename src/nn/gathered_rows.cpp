#include "nn/gathered_rows.h"

namespace muster::nn {

GatheredRows::GatheredRows(const Executor& run, const TensorGroup& group, at::Tensor x_M,
                           TensorGroup::Site site)
    : own_M_(std::move(x_M)), whole_N_(own_M_), first_(group.first_row(own_M_.size(0))) {
  if (!group.shares_rows()) return;
  std::vector<int64_t> shape = own_M_.sizes().vec();
  shape[0] *= group.size();
  whole_N_ = run.empty(shape, Category::temporary, own_M_.scalar_type());
  sent_ = group.all_gather(whole_N_, own_M_, site);
}

}  // namespace muster::nn
