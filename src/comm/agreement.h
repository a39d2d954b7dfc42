// Check mode: before a collective runs, its ranks compare what each is about to call, through the store.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/json.h"
#include "comm/call.h"

namespace muster::comm {

class Agreement {
 public:
  // `store` belongs to this group alone.
  explicit Agreement(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  // Called by all ranks of the group. Throws WorldError(mismatch) on every rank where two calls differ,
  // naming operation, sequence number, both tensors and both sites; WorldError(timeout) naming a rank that
  // did not come.
  void confirm(const Group& group, const Call& mine);

 private:
  Json read(const Group& group, const Call& mine, int64_t peer);

  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace muster::comm
