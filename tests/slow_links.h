// Hosts for ranks, with links as slow as a test wants: network namespaces joined by a bridge. Everything is
// in namespaces of this process alone and goes with it, however it ends; the machine's own network is never
// touched, and any number of tests may run at one time.
#pragma once
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>

#include "tests/program.h"

namespace muster::test {

class SlowLinks {
 public:
  // The links are not slow at first. Throws where namespaces are forbidden.
  explicit SlowLinks(int ranks) : ranks_(ranks) {
    enter_namespaces();
    shell("ip link set lo up && ip link add bridge type bridge && ip link set bridge up");
    for (int rank = 0; rank < ranks; ++rank) add_host(rank);
  }
  ~SlowLinks() {
    if (setns(outside_network_, CLONE_NEWNET) != 0 || setns(outside_mounts_, CLONE_NEWNS) != 0) std::abort();
    close(outside_network_);
    close(outside_mounts_);
  }
  SlowLinks(const SlowLinks&) = delete;

  // What each link carries in each direction from now on. The queues drop nothing: a packet that is lost
  // costs TCP far more than the time that is meant.
  void set_rate(double bytes_per_second) {
    const auto bits = static_cast<int64_t>(8 * bytes_per_second);
    const std::string shape = fmt::format("root tbf rate {}bit burst {} limit 256mb", bits,
                                          std::max<int64_t>(20'000, bits / 8 / 200));
    for (int rank = 0; rank < ranks_; ++rank) {
      shell(fmt::format("tc qdisc replace dev port{} {}", rank, shape));
      shell(fmt::format("tc -n host{} qdisc replace dev eth0 {}", rank, shape));
    }
  }

  // build/muster with arguments as torchrun starts it, one rank on each host; rank 0's output, and the status
  // of the first rank that failed.
  Outcome muster(const std::string& arguments) const {
    const Folder folder;
    std::string start, wait = "status=0; ";
    for (int rank = 0; rank < ranks_; ++rank) {
      start += fmt::format(
          "nsenter --net=/run/netns/host{0} env RANK={0} WORLD_SIZE={1} LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 "
          "MASTER_ADDR={2} MASTER_PORT=29500 OMP_NUM_THREADS=1 timeout -k 5 {3} {4}/muster {5} {6} & "
          "p{0}=$!; ",
          rank, ranks_, address(0), kLongest, BINARY_ROOT, arguments,
          rank == 0 ? "" : fmt::format(">{} 2>&1", (folder / std::to_string(rank)).string()));
      wait += fmt::format("wait $p{0} || {{ status=$?; cat {1}/{0} >&2; }}; ", rank, folder.path().string());
    }
    return run(start + wait + "exit $status");
  }

 private:
  static constexpr int kLongest = 240;  // seconds that a run may take

  static std::string address(int rank) { return fmt::format("10.77.0.{}", rank + 1); }

  static void shell(const std::string& command) {
    const Outcome outcome = run(command);
    if (outcome.status != 0)
      throw std::runtime_error(command + ": " + outcome.err +
                               "; this test needs `ip` and `tc` (iproute2), and the rights CAP_SYS_ADMIN and "
                               "CAP_NET_ADMIN (of a container: --privileged)");
  }

  // Names of namespaces are files of /run/netns: of this process alone as well.
  void enter_namespaces() {
    outside_network_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    outside_mounts_ = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0)
      throw std::runtime_error(std::string("network namespaces are forbidden here (") + strerror(errno) +
                               "); run this test as root, in a container with --privileged");
    shell("mount --make-rprivate / && mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns");
  }

  static void add_host(int rank) {
    shell(
        fmt::format("ip netns add host{0} && ip link add port{0} type veth peer name eth0 netns host{0} && "
                    "ip link set port{0} master bridge up && ip -n host{0} addr add {1}/24 dev eth0 && "
                    "ip -n host{0} link set lo up && ip -n host{0} link set eth0 up",
                    rank, address(rank)));
  }

  int ranks_;
  int outside_network_ = -1, outside_mounts_ = -1;
};

}  // namespace muster::test
