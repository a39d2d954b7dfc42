// Collectives over one mesh axis: typed, recorded, bounded in time. The ways to run differ only in the
// c10d::Backend inside: Gloo, the memory that ranks of one host share, NCCL, or one with no peers.
//
// Every collective must be called by all ranks of the group, in the same order, with the same shapes and
// dtype. A group of one is the identity: nothing is sent and nothing is recorded.
//
// A message's recorded bytes are those of the larger of its two tensors on this rank: what all_gather fills,
// what reduce_scatter and all_to_all read, the tensor itself for the others, 0 for a barrier.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "spec/mesh/mesh.h"
#include "telemetry/step_record.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace muster::comm {

enum class Reduce { sum, maximum, minimum };

// Where messages are written while a step is recorded. Owned by the rank; nullptr inside means "not
// recording".
struct MessageLog {
  telemetry::StepRecord* record = nullptr;
  double exposed_seconds = 0;  // that this rank stood still for messages so far, recorded or not
};

// A collective under way. wait() returns when the result may be read, or throws WorldError (peer_lost,
// timeout) that names axis, operation, sequence number and ranks. Waiting twice does nothing. Must be waited
// for: dropped before that, its result is undefined. A send or receive over Gloo is done() only when waited
// for.
class Pending {
 public:
  Pending();
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  void wait();
  bool done() const;
  // Of a reduce_scatter_in_parts: the part of the input for `rank` is there and does not change any more.
  // Once for each rank, in any order, before wait().
  void ready(int64_t rank);
  // Holds memory that the backend only borrows until the collective is over, waited for or not.
  void keep(at::Tensor borrowed);
  struct State;
  explicit Pending(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

class Communicator {
 public:
  struct State;  // the backend and its bookkeeping; communicator.cpp
  explicit Communicator(std::unique_ptr<State> state);
  ~Communicator();
  Communicator(Communicator&&) noexcept;

  const std::string& axis() const;  // "data", "shard+context": as messages are told
  int64_t size() const;
  int64_t rank() const;                       // of this process within the group
  const std::vector<int64_t>& ranks() const;  // global ranks of the group
  std::string transport() const;              // of Groups; empty: a group of one

  // The caller's file and line, filled in by the compiler and shown in errors.
  using Site = std::source_location;

  // All tensors must be contiguous. `root`, `to` and `from` are ranks within the group.
  // In place. Over Gloo a small one (512 KiB in all to the peers) is summed in rank order, as reduce_scatter
  // sums, and takes scratch of size() times its bytes until it is waited for.
  Pending all_reduce(at::Tensor tensor, Reduce op = Reduce::sum, Site site = Site::current());
  // out [size * n] from in [n], in rank order.
  Pending all_gather(at::Tensor out, at::Tensor in, Site site = Site::current());
  // out [n] = sum over ranks of in [size * n], this rank's part; summed in rank order, 16-bit floats in fp32.
  // Takes scratch as large as `in` until it is waited for (category communication).
  Pending reduce_scatter(at::Tensor out, at::Tensor in, Site site = Site::current());
  // The same one message, of an input that comes part by part: each part leaves when ready() tells of it,
  // beside the work for the next.
  Pending reduce_scatter_in_parts(at::Tensor out, at::Tensor in, Site site = Site::current());
  // Splits along dim 0; counts of 0 are fine.
  Pending all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_counts,
                     std::vector<int64_t> in_counts, Site site = Site::current());
  Pending broadcast(at::Tensor tensor, int64_t root, Site site = Site::current());
  Pending send(at::Tensor tensor, int64_t to, int tag, Site site = Site::current());
  Pending receive(at::Tensor tensor, int64_t from, int tag, Site site = Site::current());
  void barrier(Site site = Site::current());

 private:
  bool is_small(const at::Tensor& tensor) const;
  Pending all_reduce_at_once(at::Tensor tensor, Reduce op, Site site);
  std::unique_ptr<State> state_;
};

// How this process was started and where its peers meet.
struct World {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  bool store_is_hosted = false;   // by an agent at master_address: rank 0 connects too
  std::string store_file;         // the store that a launcher on this host keeps for its ranks, instead
  std::string store_prefix;       // job and generation, so that no job reads another's keys
  std::string interface_address;  // the address that this host's sockets bind to
};

// The communicators of one rank, made once: one an axis, and one a span that is not the ranks of an axis.
// Groups of one cost nothing.
class Groups {
 public:
  explicit Groups(std::shared_ptr<MessageLog> log) : log_(std::move(log)) {}
  Communicator& on(spec::Axis axis) { return *by_axis_.at(static_cast<size_t>(axis)); }
  Communicator& on(spec::Span span) { return *by_span_.at(static_cast<size_t>(span)); }
  MessageLog& log() { return *log_; }
  // What they talk through: "memory" (ranks of one host), "gloo", "nccl", or "gloo+memory" where groups
  // differ; empty where no group has more than one rank. With it the order of sums differs.
  std::string transport() const;

 private:
  friend class GroupMaker;
  std::vector<std::shared_ptr<Communicator>> by_axis_, by_span_;
  std::shared_ptr<MessageLog> log_;
};

struct GroupOptions {
  // The longest that one collective may take. Gloo cannot be interrupted, so this also bounds a stuck thread.
  std::chrono::milliseconds collective_timeout{60'000};
  // Before each collective the ranks compare operation, dtype, shape and counts, and all stop with
  // WorldError(mismatch) that names both calls and both sites. Costs a round trip to the store each time.
  bool check = false;
  // Ranks of one host talk through memory. Off: through sockets, as ranks of several hosts do.
  bool through_memory = true;
};

// Connects all ranks of a mesh: device "cpu" over Gloo, "cuda" over NCCL (plugin). Collective over the whole
// world; throws WorldError naming host and port, or the ranks that did not come, within about `timeout`.
Groups connect(const spec::Mesh& mesh, const World& world, const std::string& device,
               std::chrono::milliseconds timeout, const GroupOptions& options = {});
// The groups of rank `rank` in a world of any size, with no peers: every work is done at once and moves
// nothing, recorded times are 0. For rehearsals.
// `device` is the one that is rehearsed.
Groups without_peers(const spec::Mesh& mesh, int64_t rank, const std::string& device = "cpu");

}  // namespace muster::comm
