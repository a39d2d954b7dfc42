// The ranks that share each layer (tensor parallelism, Shoeybi et al. 2019, "Megatron-LM", section 3): every
// one holds whole heads, a part of the FFN's width and of the vocabulary. By default this rank is alone.
//
// With sequence parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
// Models", section 4.2.2) the group also shares the rows between those products: norms, dropout and the
// residual stream. Of the N rows of a micro-batch rank t holds the t-th of T equal runs of neighbours,
// whatever sequences they belong to: what is gathered and scattered is then contiguous for any number of
// sequences. Shapes say M for the rows of a rank: N, or N / T.
#pragma once
#include "comm/communicator.h"

namespace muster::nn {

class TensorGroup {
 public:
  using Site = comm::Communicator::Site;

  TensorGroup() = default;
  explicit TensorGroup(comm::Communicator& peers, bool shares_rows = false)
      : peers_(&peers), shares_rows_(shares_rows && peers.size() > 1) {}

  int64_t size() const { return peers_ ? peers_->size() : 1; }
  int64_t rank() const { return peers_ ? peers_->rank() : 0; }
  bool is_split() const { return size() > 1; }
  bool shares_rows() const { return shares_rows_; }
  // How many ranks the rows between the products are shared by.
  int64_t row_shares() const { return shares_rows_ ? size() : 1; }
  // The first of this rank's M rows among the N of the micro-batch.
  int64_t first_row(int64_t rows_here) const { return shares_rows_ ? rank() * rows_here : 0; }

  // Alone, each is the identity of its first argument: nothing is sent and nothing is recorded. Collective
  // over the group. In place.
  comm::Pending all_reduce(at::Tensor tensor, comm::Reduce op = comm::Reduce::sum,
                           Site site = Site::current()) const {
    return is_split() ? peers_->all_reduce(std::move(tensor), op, site) : comm::Pending();
  }
  // Where rows are shared.
  comm::Pending all_gather(at::Tensor x_N, at::Tensor x_M, Site site = Site::current()) const {
    return peers_->all_gather(std::move(x_N), std::move(x_M), site);
  }
  comm::Pending reduce_scatter(at::Tensor x_M, at::Tensor x_N, Site site = Site::current()) const {
    return peers_->reduce_scatter(std::move(x_M), std::move(x_N), site);
  }
  comm::Pending reduce_scatter_in_parts(at::Tensor x_M, at::Tensor x_N, Site site = Site::current()) const {
    return peers_->reduce_scatter_in_parts(std::move(x_M), std::move(x_N), site);
  }

 private:
  comm::Communicator* peers_ = nullptr;
  bool shares_rows_ = false;
};

}  // namespace muster::nn
