// The ranks that share each layer (tensor parallelism, Shoeybi et al. 2019, "Megatron-LM", section 3): every
// one holds whole heads, a part of the FFN's width and of the vocabulary. By default this rank is alone.
#pragma once
#include "comm/communicator.h"

namespace muster::nn {

class TensorGroup {
 public:
  TensorGroup() = default;
  explicit TensorGroup(comm::Communicator& peers) : peers_(&peers) {}

  int64_t size() const { return peers_ ? peers_->size() : 1; }
  int64_t rank() const { return peers_ ? peers_->rank() : 0; }
  bool is_split() const { return size() > 1; }
  // In place. Alone, it is the identity: nothing is sent and nothing is recorded. Collective over the group.
  comm::Pending all_reduce(at::Tensor tensor, comm::Reduce op = comm::Reduce::sum,
                           comm::Communicator::Site site = comm::Communicator::Site::current()) const {
    return is_split() ? peers_->all_reduce(std::move(tensor), op, site) : comm::Pending();
  }

 private:
  comm::Communicator* peers_ = nullptr;
};

}  // namespace muster::nn
