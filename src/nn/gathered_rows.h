// The rows of a micro-batch that a tensor group shares, gathered for the products that need all of them.
#pragma once
#include "nn/executor.h"
#include "nn/tensor_group.h"

namespace muster::nn {

// Sends at once; `x_M` must live until whole(). Where rows are not shared it is x itself.
class GatheredRows {
 public:
  GatheredRows(const Executor& run, const TensorGroup& group, at::Tensor x_M,
               TensorGroup::Site site = TensorGroup::Site::current());

  const at::Tensor& own() const { return own_M_; }
  // All N rows, once they are here.
  const at::Tensor& whole() {
    sent_.wait();
    return whole_N_;
  }
  // Calls product(x, first, rows) for runs of rows [first, first + rows) that make up all N: this rank's own
  // at once, the others when they are here, so that their message travels beside the first.
  template <class Product>
  void for_each_run(Product&& product) {
    const int64_t first = first_, rows = own_M_.size(0), all = whole_N_.size(0);
    product(own_M_, first, rows);
    whole();
    if (first > 0) product(whole_N_.narrow(0, 0, first), int64_t{0}, first);
    const int64_t end = first + rows;
    if (end < all) product(whole_N_.narrow(0, end, all - end), end, all - end);
  }

 private:
  at::Tensor own_M_, whole_N_;
  int64_t first_ = 0;
  comm::Pending sent_;
};

}  // namespace muster::nn
