#include "device/plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"

namespace muster::device {
namespace {

constexpr const char* kName = "libmuster_cuda.so";

[[noreturn]] void refuse(const std::string& rule, const std::string& remedy) {
  throw UserError({"training.device", "cuda", rule, remedy});
}

// Beside the library or program that holds this function.
std::filesystem::path plugin_path() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&cuda_plugin), &own) == 0 || !own.dli_fname) return kName;
  return std::filesystem::absolute(own.dli_fname).parent_path() / kName;
}

const CudaPlugin& load() {
  const std::filesystem::path path = plugin_path();
  if (!std::filesystem::exists(path))
    refuse(fmt::format("needs the CUDA plugin, and {} is not there", path.string()),
           "build it with `make build GPU=1`, or use device = \"cpu\"");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    refuse(
        fmt::format("needs the CUDA plugin, which does not load: {}", dlerror()),
        "install LibTorch's GPU packages (`pip install torch` with its dependencies) and the NVIDIA driver");
  const auto entry = reinterpret_cast<const CudaPlugin* (*)()>(dlsym(library, "muster_cuda_plugin"));
  const CudaPlugin* plugin = entry ? entry() : nullptr;
  if (!plugin || plugin->version != kCudaPluginVersion)
    refuse(fmt::format("{} belongs to another version of muster", path.string()),
           "build both together with `make build GPU=1`");
  if (plugin->device_count() == 0)
    refuse("needs a GPU, and the driver shows none", "check `nvidia-smi`, or use device = \"cpu\"");
  return *plugin;
}

}  // namespace

const CudaPlugin& cuda_plugin() {
  static const CudaPlugin& plugin = load();
  return plugin;
}

}  // namespace muster::device
