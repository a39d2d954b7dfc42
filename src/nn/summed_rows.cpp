#include "nn/summed_rows.h"

#include <algorithm>

namespace muster::nn {
namespace {

int64_t messages_of(const TensorGroup& group, const at::Tensor& y_NO) {
  if (!group.is_split()) return 1;
  return std::clamp<int64_t>(bytes_of(y_NO) / kLeastMessageBytes, 1, std::min(kMostMessages, y_NO.size(0)));
}

}  // namespace

SummedRows::SummedRows(const Executor& run, const TensorGroup& group, at::Tensor y_MO, TensorGroup::Site site)
    : group_(group), site_(site), own_MO_(std::move(y_MO)), whole_NO_(own_MO_) {
  if (group.shares_rows()) {
    whole_NO_ = run.empty({own_MO_.size(0) * group.size(), own_MO_.size(1)}, Category::temporary,
                          own_MO_.scalar_type());
    is_in_parts_ = bytes_of(own_MO_) >= kLeastRunBytes;
    if (is_in_parts_) sums_.push_back(group.reduce_scatter_in_parts(own_MO_, whole_NO_, site));
    runs_ = is_in_parts_ ? group.size() : 1;
    offset_ = is_in_parts_ ? group.rank() : 0;
  } else {
    runs_ = messages_of(group, own_MO_);
    offset_ = runs_ - 1;
  }
  rows_in_run_ = (whole_NO_.size(0) + runs_ - 1) / runs_;
}

void SummedRows::send(int64_t run, const at::Tensor& rows) {
  if (is_in_parts_)
    sums_.front().ready(run);
  else
    sums_.push_back(group_.shares_rows() ? group_.reduce_scatter(own_MO_, rows, site_)
                                         : group_.all_reduce(rows, comm::Reduce::sum, site_));
}

void SummedRows::wait() {
  for (comm::Pending& sum : sums_) sum.wait();
  sums_.clear();
}

}  // namespace muster::nn
