#include "plan/probe.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "plan/fma_peak.h"

namespace muster::plan {
namespace {

constexpr int64_t kMatmulSize = 2048;
constexpr int64_t kCopyBytes = 256 * MiB;
constexpr int kRepeats = 8;

// The least of several times: what the machine can do when nothing else asks for it.
template <class Body>
double best_seconds(Body&& body) {
  const Clock clock;
  double best = 1e300;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double start = clock.seconds();
    body();
    best = std::min(best, clock.seconds() - start);
  }
  return best;
}

double matmul_flops(at::ScalarType dtype) {
  const at::Tensor a = at::randn({kMatmulSize, kMatmulSize}).to(dtype), b = a.t().contiguous(),
                   c = at::empty_like(a);
  const double flops = 2.0 * kMatmulSize * kMatmulSize * kMatmulSize;
  return flops / best_seconds([&] { at::mm_out(const_cast<at::Tensor&>(c), a, b); });
}

double copy_bandwidth() {
  const at::Tensor from = at::ones({kCopyBytes}, at::kByte), to = at::empty_like(from);
  return 2.0 * kCopyBytes / best_seconds([&] { to.copy_(from); });
}

}  // namespace

spec::Hardware probe(const std::function<void(const std::string&)>& say) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  at::set_num_threads(cores);
  spec::Hardware hardware;
  hardware.name = "local";
  hardware.source = fmt::format("measured by muster probe on {} cores", cores);
  const auto note = [&](const char* dtype, double flops, const char* how) {
    hardware.peak_flops[dtype] = flops;
    say(fmt::format("{:<9} {}/s on {} cores: {}", dtype, format_flops(flops), cores, how));
  };
  note("float32", cores * fma_peak_float32(), "multiply-adds on registers, one core times their number");
  note("float64", cores * fma_peak_float64(), "multiply-adds on registers, one core times their number");
  note("bfloat16", matmul_flops(at::kBFloat16), "the best of several matmuls of 2048 cubed");
  say(fmt::format("matmul    {}/s in float32, {:.0f} % of that peak", format_flops(matmul_flops(at::kFloat)),
                  100 * matmul_flops(at::kFloat) / hardware.peak_flops["float32"]));
  hardware.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  hardware.memory_bandwidth_bytes_per_second = copy_bandwidth();
  say(fmt::format("memory    {}, {:.1f} GB/s, the best of {} copies of {}",
                  format_bytes(hardware.memory_bytes), hardware.memory_bandwidth_bytes_per_second / 1e9,
                  kRepeats, format_bytes(kCopyBytes)));
  return hardware;
}

std::string to_toml(const spec::Hardware& hardware) {
  std::string text = fmt::format(
      "name = \"{}\"\nsource = \"{}\"\nmemory_bytes = {}\nmemory_bandwidth_bytes_per_second = {:.4e}\n"
      "\n[peak_flops]  # dense, of all cores\n",
      hardware.name, hardware.source, hardware.memory_bytes, hardware.memory_bandwidth_bytes_per_second);
  for (const auto& [dtype, flops] : hardware.peak_flops) text += fmt::format("{} = {:.4e}\n", dtype, flops);
  return text;
}

}  // namespace muster::plan
