// All ranks of a run around one table: short texts told to everyone, by collectives along each axis in turn.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/communicator.h"

namespace muster::checkpoint {

class Assembly {
 public:
  // `device`: where the groups' tensors live.
  Assembly(comm::Groups& groups, at::Device device) : groups_(&groups), device_(device) {}

  // Every rank's text, in an order that all ranks share. Collective over the world.
  std::vector<std::string> gather(const std::string& own);
  // The largest of all ranks' numbers. Collective over the world.
  int64_t maximum(int64_t own);
  int64_t minimum(int64_t own) { return -maximum(-own); }

 private:
  comm::Groups* groups_;
  at::Device device_;
};

}  // namespace muster::checkpoint
