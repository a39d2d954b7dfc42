// How the ranks of a group find out that they are on one host, and open each other's mailboxes.
#pragma once
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/same_host/desk.h"

namespace muster::comm {

// The desk of rank `rank` of the group with global ranks `names`; nothing, on all of them alike, where they
// are on several hosts or may not read each other's memory. Collective over the group.
std::optional<Desk> introduce(c10d::Store& store, const std::vector<int64_t>& names, int64_t rank);

}  // namespace muster::comm
