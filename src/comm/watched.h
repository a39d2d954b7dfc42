// A work that tells when it ends.
#pragma once
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace muster::comm {

// Gloo learns that a send or a receive is over only from somebody who waits for it: here a thread of the
// message's own does, `timeout` long. For records of when messages end; costs a thread a message.
c10::intrusive_ptr<c10d::Work> watched(c10::intrusive_ptr<c10d::Work> work,
                                       std::chrono::milliseconds timeout);

}  // namespace muster::comm
