#include "checkpoint/set/snapshot.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace muster::checkpoint {
namespace {

constexpr int64_t kAlign = 64;

int64_t room_of(const at::Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

int64_t snapshot_bytes(const State& state, int64_t rank) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : state.tensors)
    if (tensor.writer == rank) bytes += room_of(tensor.local);
  return bytes;
}

Snapshot::~Snapshot() {
  if (memory_) ::munmap(memory_, static_cast<size_t>(bytes_));
}

void Snapshot::take(const State& state, int64_t rank) {
  const c10::NoGradGuard no_grad;
  if (state_.tensors.empty()) allocate(state, rank);
  MUSTER_CHECK(state_.tensors.size() == state.tensors.size());
  for (size_t at = 0; at < state.tensors.size(); ++at)
    if (const StateTensor& from = state.tensors[at]; from.writer == rank) {
      const at::Tensor& to = state_.tensors[at].local;
      from.read ? from.read(to) : static_cast<void>(to.copy_(from.local));
    }
  state_.counters.clear();
  for (const StateCounter& counter : state.counters)
    state_.counters.push_back({counter.name, [value = counter.get()] { return value; }, {}});
}

void Snapshot::allocate(const State& state, int64_t rank) {
  bytes_ = snapshot_bytes(state, rank);
  if (bytes_ > 0) {
    memory_ = ::mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) {
      memory_ = nullptr;
      throw WorldError(WorldError::Kind::device,
                       fmt::format("a snapshot takes {} of host memory: {}",
                                   format_bytes(std::exchange(bytes_, 0)), std::strerror(errno)));
    }
    // Fewer page faults at the first copy; a kernel that has none gives small pages.
    ::madvise(memory_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
  }
  auto* next = static_cast<char*>(memory_);
  for (const StateTensor& tensor : state.tensors) {
    StateTensor copy = tensor;
    const auto options = tensor.local.options().device(at::kCPU).requires_grad(false);
    copy.local = at::Tensor();
    copy.read = copy.write = {};
    if (tensor.writer == rank) {
      copy.local = tensor.local.numel() > 0 ? at::from_blob(next, tensor.local.sizes(), options)
                                            : at::empty(tensor.local.sizes(), options);
      next += room_of(tensor.local);
    }
    state_.tensors.push_back(std::move(copy));
  }
}

}  // namespace muster::checkpoint
