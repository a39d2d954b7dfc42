// The ranks that have other tokens of the same sequences (context parallelism). By default this rank is
// alone.
#pragma once
#include <string>

#include "comm/communicator.h"

namespace muster::nn {

class ContextGroup {
 public:
  ContextGroup() = default;
  ContextGroup(comm::Communicator& peers, const std::string& method)
      : peers_(&peers), is_ring_(method == "ring") {}

  int64_t size() const { return peers_ ? peers_->size() : 1; }
  int64_t rank() const { return peers_ ? peers_->rank() : 0; }
  bool is_split() const { return size() > 1; }
  // Else all_to_all.
  bool is_ring() const { return is_ring_; }
  comm::Communicator& peers() const { return *peers_; }

 private:
  comm::Communicator* peers_ = nullptr;
  bool is_ring_ = true;
};

}  // namespace muster::nn
