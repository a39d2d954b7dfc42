// The CUDA and NCCL plugin. It compiles and links where a CUDA toolkit is; it has not been run: the machines
// that this project is built and tested on have no GPU.
#include "device/plugin.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace muster::device {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

int device_count() {
  return c10::cuda::device_count();
}

void use_device(int index) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
}

void synchronize() {
  c10::cuda::getCurrentCUDAStream().synchronize();
}

GpuMemory memory(int index) {
  const auto device = static_cast<c10::DeviceIndex>(index);
  const c10::cuda::CUDAGuard guard(device);
  size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const auto statistics = caching::getDeviceStats(device);
  constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  GpuMemory memory;
  memory.total = static_cast<int64_t>(total);
  memory.free = static_cast<int64_t>(free);
  memory.allocated = statistics.allocated_bytes[kAllPools].current;
  memory.peak = statistics.allocated_bytes[kAllPools].peak;
  memory.reserved = statistics.reserved_bytes[kAllPools].current;
  return memory;
}

void reset_peak(int index) {
  caching::resetPeakStats(static_cast<c10::DeviceIndex>(index));
}

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, size, options);
  group->setBoundDeviceId(at::Device(at::kCUDA, c10::cuda::current_device()));
  return group;
}

constexpr CudaPlugin kPlugin{kCudaPluginVersion, &device_count, &use_device, &synchronize, &memory,
                             &reset_peak,        &make_nccl};

}  // namespace
}  // namespace muster::device

extern "C" __attribute__((visibility("default"))) const muster::device::CudaPlugin* muster_cuda_plugin() {
  return &muster::device::kPlugin;
}
