// An all-gather over sends and receives, each rank's part straight into its place in the result.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace muster::comm {

// Gloo's own all-gather fills a buffer of its own, as large as the result, on its own thread, and copies:
// memory that no rehearsal foretells. Here nothing is allocated, each part travels once to each peer, and all
// of them at one time. Both tensors must live until the work is waited for; it is done only then, and each
// part may take `timeout`.
c10::intrusive_ptr<c10d::Work> gather_in_place(c10d::Backend& backend, const at::Tensor& out,
                                               const at::Tensor& in, std::chrono::milliseconds timeout);

}  // namespace muster::comm
