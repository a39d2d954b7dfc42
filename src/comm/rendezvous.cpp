#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "base/units.h"
#include "comm/call.h"
#include "comm/socket.h"

namespace muster::comm {
namespace {

using std::chrono::milliseconds;

using Store = c10::intrusive_ptr<c10d::Store>;

// A stranger at the port may accept and then say nothing, which c10d waits for without end: hence a thread,
// left behind where that happens.
Store open_tcp(const std::string& host, const c10d::TCPStoreOptions& options) {
  std::packaged_task<Store()> open([=] { return c10::make_intrusive<c10d::TCPStore>(host, options); });
  std::future<Store> opened = open.get_future();
  std::thread(std::move(open)).detach();
  std::string reason = "it accepts and does not answer";
  try {
    if (opened.wait_for(options.timeout) == std::future_status::ready) return opened.get();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    reason = text.substr(0, text.find('\n'));
  }
  throw WorldError(
      WorldError::Kind::timeout,
      fmt::format("no store of a job at {}:{} within {}: {}", host, options.port,
                  format_seconds(std::chrono::duration<double>(options.timeout).count()), reason));
}

Store connect_tcp(const std::string& host, int port, milliseconds timeout) {
  // c10d's own attempts outlast its timeout.
  wait_for_listener(host, port, timeout);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return open_tcp(host, options);
}

Store open_store(const World& world, milliseconds timeout) {
  if (!world.store_file.empty())
    return c10::make_intrusive<c10d::FileStore>(world.store_file, static_cast<int>(world.size));
  if (world.rank == 0 && !world.store_is_hosted)
    return host_store(world.master_address, world.master_port, timeout).store;
  return connect_tcp(world.master_address, world.master_port, timeout);
}

// "127.0.0.1:29500", as an error names it.
std::string place(const World& world) {
  if (!world.store_file.empty()) return "this host's launcher";
  return fmt::format("{}:{}", world.master_address, world.master_port);
}

std::string joined_key(int64_t rank) {
  return fmt::format("joined/{}", rank);
}

std::vector<int64_t> missing_ranks(c10d::Store& store, int64_t size) {
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < size; ++rank)
    if (!store.check({joined_key(rank)})) missing.push_back(rank);
  return missing;
}

}  // namespace

HostedStore host_store(const std::string& address, int port, milliseconds timeout) {
  const Bound bound = bind_to(address, port);
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.masterListenFd = bound.fd;
  options.port = static_cast<uint16_t>(bound.port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return {open_tcp(address, options), bound.port};
}

c10::intrusive_ptr<c10d::Store> join_store(const World& world, milliseconds timeout) {
  return c10::make_intrusive<c10d::PrefixStore>(world.store_prefix, open_store(world, timeout));
}

void wait_for_all(c10d::Store& store, const World& world, milliseconds timeout) {
  const std::string all = "joined/all";
  try {
    store.set(joined_key(world.rank), "1");
    if (store.add("joined/count", 1) == world.size) store.set(all, "1");
    store.wait({all}, timeout);
  } catch (const c10::DistNetworkError&) {
    throw WorldError(WorldError::Kind::peer_lost, "lost the store at " + place(world));
  } catch (const c10::Error&) {  // each store has a type of its own for a wait that ended
    throw WorldError(WorldError::Kind::timeout,
                     fmt::format("ranks {} of {} did not come to {} within {}",
                                 list_ranks(missing_ranks(store, world.size)), world.size, place(world),
                                 format_seconds(std::chrono::duration<double>(timeout).count())));
  }
}

}  // namespace muster::comm
