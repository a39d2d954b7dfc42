#include "comm/same_host/introduction.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <stdexcept>

#include "base/file.h"
#include "base/json.h"

namespace muster::comm {
namespace {

// Read from each other's memory once, before it is relied on.
const uint64_t kSign = 0x6d75737465722121;

// The same for two processes that share kernel, process numbers, network and user. Ranks in network
// namespaces of their own are hosts of their own.
std::string host_of_this_process() {
  std::error_code none;
  return fmt::format("{} {} {} {}", read_text("/proc/sys/kernel/random/boot_id"),
                     fs::read_symlink("/proc/self/ns/pid", none).string(),
                     fs::read_symlink("/proc/self/ns/net", none).string(), ::geteuid());
}

std::string key_of(const char* what, size_t rank) {
  return fmt::format("{}/{}", what, rank);
}

// What all ranks tell under `what`, in rank order.
std::vector<Json> tell_all(c10d::Store& store, const char* what, size_t rank, size_t size, const Json& own) {
  store.set(key_of(what, rank), own.dump());
  std::vector<Json> all;
  for (size_t other = 0; other < size; ++other)
    all.push_back(parse_json(store.get_to_str(key_of(what, other)), "what a rank tells of its host"));
  return all;
}

Neighbour meet(int64_t name, const Json& told, int64_t size) {
  Neighbour neighbour{Peer(told["process"], name), Mailbox(told["process"], told["mailbox"], size)};
  uint64_t sign = 0;
  neighbour.peer.read(&sign, told["sign"], sizeof sign);
  if (sign != kSign) throw std::runtime_error("another process has taken its number");
  return neighbour;
}

std::optional<Desk> meet_all(Mailbox own, const std::vector<int64_t>& names, int64_t rank,
                             const std::vector<Json>& told) {
  std::vector<std::optional<Neighbour>> others(names.size());
  try {
    for (size_t other = 0; other < names.size(); ++other) {
      if (static_cast<int64_t>(other) == rank) continue;
      others[other].emplace(meet(names[other], told[other], static_cast<int64_t>(names.size())));
    }
  } catch (const std::exception&) {
    return std::nullopt;  // a container or a policy that forbids it
  }
  return Desk(rank, std::move(own), std::move(others));
}

}  // namespace

std::optional<Desk> introduce(c10d::Store& store, const std::vector<int64_t>& names, int64_t rank) {
  // Where only ancestors may look into a process, those of this launcher may.
  ::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0);
  const auto number = static_cast<size_t>(rank);
  Mailbox mailbox(static_cast<int64_t>(names.size()));
  const Json own = {{"host", host_of_this_process()},
                    {"process", ::getpid()},
                    {"mailbox", mailbox.fd()},
                    {"sign", reinterpret_cast<uint64_t>(&kSign)}};
  const std::vector<Json> told = tell_all(store, "host", number, names.size(), own);
  for (const Json& other : told)
    if (other["host"] != own["host"]) return std::nullopt;
  std::optional<Desk> desk = meet_all(std::move(mailbox), names, rank, told);
  for (const Json& other : tell_all(store, "met", number, names.size(), Json(desk.has_value())))
    if (other != Json(true)) return std::nullopt;
  desk->own().close_fd();
  return desk;
}

}  // namespace muster::comm
