// A c10d backend without peers: every work is done at once and nothing moves, on `meta` tensors too. torch's
// own fake group needs Python's headers.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace muster::comm {

c10::intrusive_ptr<c10d::Backend> make_peerless(int rank, int size);

}  // namespace muster::comm
