// What the model tells of its walk through the units (the embeddings, the blocks, the final norm with the
// head), so that their values can be fetched in time and their gradients sent off. By default nothing needs
// doing: everything is there.
#pragma once
#include <cstdint>

namespace muster::nn {

class UnitAccess {
 public:
  virtual ~UnitAccess() = default;
  // The values of `unit` are about to be read, until leave_values. In forward's order 0 .. L+1, in backward's
  // L .. 1: the last unit stays from forward to backward, and the embeddings' backward reads none.
  virtual void use_values(int64_t) {}
  virtual void leave_values(int64_t) {}
  // The gradients of `unit` are about to be written, until gradients_done, which comes once a backward, the
  // last unit first. The head's are written in forward.
  virtual void use_gradients(int64_t) {}
  virtual void gradients_done(int64_t) {}
};

}  // namespace muster::nn
