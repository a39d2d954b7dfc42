#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sched.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/error.h"
#include "comm/gloo.h"
#include "comm/rendezvous.h"
#include "comm/same_host/backend.h"
#include "comm/socket.h"
#include "comm/state.h"
#include "device/plugin.h"

namespace muster::comm {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

using MakeBackend = std::function<c10::intrusive_ptr<c10d::Backend>(Store, const Group&)>;

std::string bind_address(const World& world) {
  if (!world.interface_address.empty()) return world.interface_address;
  return world.local_size == world.size ? "127.0.0.1" : address_towards(world.master_address);
}

MakeBackend nccl_maker(const World& world, milliseconds timeout) {
  const device::CudaPlugin& plugin = device::cuda_plugin();
  plugin.use_device(static_cast<int>(world.local_rank));
  return [&plugin, timeout](Store store, const Group& group) {
    return plugin.make_nccl(std::move(store), static_cast<int>(group.rank), static_cast<int>(group.size()),
                            timeout);
  };
}

// Whether each thread that computes on this host has a core for itself.
bool has_a_core(const World& world) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return false;
  return world.local_size * at::get_num_threads() <= CPU_COUNT(&cores);
}

// Through memory where all of the group are on this host, and as `otherwise` makes it elsewhere.
MakeBackend same_host_maker(const World& world, milliseconds timeout, MakeBackend otherwise) {
  const SameHostOptions options{timeout, has_a_core(world)};
  return [=](Store store, const Group& group) {
    const auto own_store = c10::make_intrusive<c10d::PrefixStore>("same_host", store);
    auto backend = connect_same_host(own_store, group.ranks, group.rank, options);
    return backend ? backend : otherwise(std::move(store), group);
  };
}

MakeBackend gloo_maker(const World& world, milliseconds connect_timeout, milliseconds timeout) {
  auto gloo = std::make_shared<Gloo>(bind_address(world));
  return [=](Store store, const Group& group) {
    return gloo->make(std::move(store), static_cast<int>(group.rank), static_cast<int>(group.size()),
                      connect_timeout, timeout);
  };
}

Wire connect_group(const Group& group, const Store& store, const MakeBackend& make, bool check) {
  const std::string name = fmt::format("{}/{}", group.axis, group.ranks.front());
  Wire wire;
  try {
    wire.backend = make(c10::make_intrusive<c10d::PrefixStore>(name, store), group);
  } catch (const WorldError&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw WorldError(WorldError::Kind::peer_lost,
                     fmt::format("{} axis: ranks {} could not connect to each other: {}", group.axis,
                                 list_ranks(group.ranks), text.substr(0, text.find('\n'))));
  }
  // A connection of its own: a blocked get holds its client's lock.
  if (check)
    wire.agreement =
        std::make_unique<Agreement>(c10::make_intrusive<c10d::PrefixStore>(name + "/check", store->clone()));
  return wire;
}

}  // namespace

Groups connect_over(Store store, const spec::Mesh& mesh, const World& world, const std::string& device,
                    milliseconds timeout, const GroupOptions& options) {
  wait_for_all(*store, world, timeout);
  MakeBackend make = device == "cuda" ? nccl_maker(world, options.collective_timeout)
                                      : gloo_maker(world, timeout, options.collective_timeout);
  if (device == "cpu" && options.through_memory)
    make = same_host_maker(world, options.collective_timeout, std::move(make));
  return make_groups(mesh, world.rank, options.collective_timeout, [&](const Group& group) {
    Wire wire = connect_group(group, store, make, options.check);
    wire.is_slow_to_wake = device == "cpu";
    return wire;
  });
}

Groups connect(const spec::Mesh& mesh, const World& world, const std::string& device, milliseconds timeout,
               const GroupOptions& options) {
  MUSTER_CHECK(mesh.world_size() == world.size, "a mesh of {} ranks in a world of {}", mesh.world_size(),
               world.size);
  MUSTER_CHECK(device == "cpu" || device == "cuda", "device '{}'", device);
  if (world.size == 1) return make_groups(mesh, world.rank, options.collective_timeout, {});
  return connect_over(join_store(world, timeout), mesh, world, device, timeout, options);
}

}  // namespace muster::comm
