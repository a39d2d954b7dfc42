// What a communicator is inside the comm room: a backend and its bookkeeping.
#pragma once
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/agreement.h"
#include "comm/call.h"
#include "comm/communicator.h"

namespace muster::comm {

struct Communicator::State {
  std::shared_ptr<const Group> group;
  c10::intrusive_ptr<c10d::Backend> backend;  // null: a group of one
  std::shared_ptr<MessageLog> log;
  std::unique_ptr<Agreement> agreement;  // null: not in check mode
  bool timed = true;                     // false without peers: times stay 0
  bool is_slow_to_wake = false;          // a collective goes through a thread of the backend: Gloo
  // Sends and receives are counted apart: only two of the group take part in one.
  uint64_t collectives = 0, point_to_points = 0;

  using Start = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;
  // The one way out: numbers the call, records it, agrees on it; and starts it. `finish` runs when it is
  // waited for.
  std::unique_ptr<Pending::State> begin(Call call, std::function<void()> finish);
  Pending issue(Call call, const Start& start, std::function<void()> finish = {});
};

// What makes a group of several able to talk.
struct Wire {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::unique_ptr<Agreement> agreement;
  bool timed = true;
  bool is_slow_to_wake = false;
};

// The communicators of `rank`, axis by axis in one order on all ranks; `connect_group` is called for the
// groups of more than one.
Groups make_groups(const spec::Mesh& mesh, int64_t rank, std::chrono::milliseconds timeout,
                   const std::function<Wire(const Group&)>& connect_group);

// connect() over a store that the ranks share already. Collective over the world.
Groups connect_over(c10::intrusive_ptr<c10d::Store> store, const spec::Mesh& mesh, const World& world,
                    const std::string& device, std::chrono::milliseconds timeout,
                    const GroupOptions& options);

}  // namespace muster::comm
