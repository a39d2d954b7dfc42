// The rows of a product that is a sum over a tensor group: what is worked out travels beside the rest.
#pragma once
#include <vector>

#include "nn/executor.h"
#include "nn/tensor_group.h"

namespace muster::nn {

// A run of rows is worth a product of its own, and a whole message one more, from this size on.
constexpr int64_t kLeastRunBytes = 1 << 18, kLeastMessageBytes = 1 << 20;
constexpr int64_t kMostMessages = 4;

class SummedRows {
 public:
  // `y_MO` becomes this rank's rows of the sum, all N of them where rows are not shared, and must live until
  // wait(). Alone, it is the product.
  SummedRows(const Executor& run, const TensorGroup& group, at::Tensor y_MO,
             TensorGroup::Site site = TensorGroup::Site::current());

  // Calls product(y, first, rows) for runs of rows [first, first + rows) that make up all N, each into its
  // place `y`, and sends each run off behind its product.
  //   Rows shared: those of the next rank first and this rank's own last, one message, in parts (small ones
  //   whole).
  //   Else: one message for a run of at least kLeastMessageBytes, kMostMessages at most.
  template <class Product>
  void for_each_run(Product&& product) {
    for (int64_t at = 1; at <= runs_; ++at) {
      const int64_t run = (offset_ + at) % runs_, first = run * rows_in_run_;
      const int64_t rows = std::min(rows_in_run_, whole_NO_.size(0) - first);
      product(whole_NO_.narrow(0, first, rows), first, rows);
      send(run, whole_NO_.narrow(0, first, rows));
    }
  }
  void wait();

 private:
  void send(int64_t run, const at::Tensor& rows);

  const TensorGroup& group_;
  TensorGroup::Site site_;
  at::Tensor own_MO_, whole_NO_;
  int64_t runs_ = 1, rows_in_run_ = 0;
  int64_t offset_ = 0;  // the run that comes last
  bool is_in_parts_ = false;
  std::vector<comm::Pending> sums_;
};

}  // namespace muster::nn
