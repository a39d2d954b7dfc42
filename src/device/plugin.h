// CUDA and NCCL live in a plugin, libmuster_cuda.so beside this program, so that one program runs with and
// without them. It is loaded when a job says training.device = "cuda", before anything asks torch whether
// there is a GPU: torch decides that once.
#pragma once
#include <chrono>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster::device {

// Bytes of one GPU, as torch's caching allocator counts them.
struct GpuMemory {
  int64_t total = 0;      // of the device
  int64_t free = 0;       // of the device, now
  int64_t allocated = 0;  // in tensors, now
  int64_t peak = 0;       // the most that was allocated since the last reset_peak
  int64_t reserved = 0;   // taken from the device, in use or cached
};

// What the plugin offers. It exports `extern "C" const CudaPlugin* muster_cuda_plugin()`.
struct CudaPlugin {
  int version;
  int (*device_count)();
  // The device of this process; before its first CUDA tensor.
  void (*use_device)(int index);
  // Waits for the current stream of the device in use.
  void (*synchronize)();
  GpuMemory (*memory)(int index);
  void (*reset_peak)(int index);
  // An NCCL group on the device in use. Collective over the group; `store` belongs to it alone.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                                 std::chrono::milliseconds timeout);
};
constexpr int kCudaPluginVersion = 1;

// Loads the plugin at the first call. UserError(training.device) where it is not there, cannot be loaded, or
// finds no GPU.
const CudaPlugin& cuda_plugin();

}  // namespace muster::device
