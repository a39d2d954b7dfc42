#include "comm/communicator.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "comm/in_place.h"
#include "comm/pending.h"
#include "comm/state.h"
#include "device/ledger.h"

namespace muster::comm {
namespace {

c10d::ReduceOp to_c10d(Reduce op) {
  switch (op) {
    case Reduce::maximum:
      return c10d::ReduceOp::MAX;
    case Reduce::minimum:
      return c10d::ReduceOp::MIN;
    case Reduce::sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

const char* to_string(Reduce op) {
  return op == Reduce::sum ? "sum" : op == Reduce::maximum ? "maximum" : "minimum";
}

// A call over `tensor`, the larger of the two that it has.
Call call_over(const char* op, std::string detail, const at::Tensor& tensor, Communicator::Site site) {
  MUSTER_CHECK(tensor.is_contiguous(), "{} of a tensor that is not contiguous: {}", op, describe(tensor));
  Call call;
  call.op = op;
  call.detail = std::move(detail);
  call.tensor = describe(tensor);
  call.bytes = static_cast<int64_t>(tensor.nbytes());
  call.site = site;
  return call;
}

void check_pair(const char* op, const at::Tensor& whole, const at::Tensor& part, int64_t size) {
  MUSTER_CHECK(whole.is_contiguous() && part.is_contiguous(), "{}: {} and {} must be contiguous", op,
               describe(whole), describe(part));
  MUSTER_CHECK(whole.scalar_type() == part.scalar_type() && whole.numel() == size * part.numel(),
               "{} among {}: {} is not {} times {}", op, size, describe(whole), size, describe(part));
}

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

bool is_gloo(c10d::Backend& backend) {
  return backend.getBackendName() == "gloo";
}

// The same memory as the backend is to hold it: not owned by Gloo, whose thread may let go of a tensor some
// time after its work is done; and the caller's memory must end where the caller's code says (the memory of a
// step is compared event by event).
at::Tensor lent(c10d::Backend& backend, const at::Tensor& tensor) {
  return is_gloo(backend) ? at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options()) : tensor;
}

// Parts of one message may leave one by one.
bool sends_at_once(c10d::Backend& backend) {
  return is_gloo(backend) || backend.getBackendName() == "memory";
}

// Room for what is received, a row a rank.
at::Tensor rows_of(int64_t ranks, int64_t elements, const at::Tensor& like) {
  device::CategoryGuard guard(device::Category::communication);
  return at::empty({ranks, elements}, like.options().requires_grad(false));
}

// Each rank's part straight into its place, where the backend's own would go through a copy.
c10::intrusive_ptr<c10d::Work> gather(c10d::Backend& backend, const at::Tensor& out, const at::Tensor& in,
                                      std::chrono::milliseconds timeout) {
  at::Tensor to = lent(backend, out), from = lent(backend, in);
  if (is_gloo(backend)) return gather_in_place(backend, to, from, timeout);
  return backend.all_gather_single(to, from);
}

c10::intrusive_ptr<c10d::Work> swap_parts(c10d::Backend& backend, const at::Tensor& parts,
                                          const at::Tensor& in) {
  at::Tensor to = lent(backend, parts.view({-1})), from = lent(backend, in.view({-1}));
  // The backend moves the vectors out.
  std::vector<int64_t> to_counts, from_counts;
  return backend.all_to_all_single(to, from, to_counts, from_counts);
}

// On CPUs each part leaves at once; elsewhere all of them with the last.
std::function<c10::intrusive_ptr<c10d::Work>(int64_t)> part_sender(c10d::Backend& backend,
                                                                   const at::Tensor& parts,
                                                                   const at::Tensor& in,
                                                                   std::chrono::milliseconds timeout) {
  const at::Tensor to = lent(backend, parts), from = lent(backend, in.view({parts.size(0), -1}));
  if (sends_at_once(backend)) return ScatterInPlace(backend, to, from, timeout);
  return [&backend, to, from, missing = parts.size(0)](int64_t) mutable {
    return --missing > 0 ? c10::intrusive_ptr<c10d::Work>() : swap_parts(backend, to, from);
  };
}

void add_row(at::Tensor& sum, const at::Tensor& row, Reduce op) {
  switch (op) {
    case Reduce::maximum:
      at::maximum_out(sum, sum, row);
      return;
    case Reduce::minimum:
      at::minimum_out(sum, sum, row);
      return;
    case Reduce::sum:
      sum.add_(row);
  }
}

// out [n] = parts [size, n] reduced row by row.
void reduce_rows(at::Tensor out, const at::Tensor& parts, Reduce op) {
  at::NoGradGuard no_grad;
  at::Tensor sum = is_half(out) ? parts[0].to(at::kFloat) : out;
  if (!is_half(out)) out.copy_(parts[0]);
  for (int64_t row = 1; row < parts.size(0); ++row) add_row(sum, parts[row].to(sum.scalar_type()), op);
  if (is_half(out)) out.copy_(sum);
}

std::function<void()> reduce_into(const at::Tensor& out, const at::Tensor& parts, Reduce op = Reduce::sum) {
  return [flat_out = out.view({-1}), parts, op] {
    device::CategoryGuard guard(device::Category::communication);
    reduce_rows(flat_out, parts, op);
  };
}

}  // namespace

std::unique_ptr<Pending::State> Communicator::State::begin(Call call, std::function<void()> finish) {
  auto pending = std::make_unique<Pending::State>();
  const double begin = Clock().seconds();
  call.sequence = call.point_to_point ? point_to_points++ : collectives++;
  pending->group = group;
  pending->line = MessageLine(log, *group, call, timed);
  pending->finish = std::move(finish);
  pending->call = std::move(call);
  if (agreement && !pending->call.point_to_point) agreement->confirm(*group, pending->call);
  pending->line.expose(Clock().seconds() - begin);
  return pending;
}

Pending Communicator::State::issue(Call call, const Start& start, std::function<void()> finish) {
  auto pending = begin(std::move(call), std::move(finish));
  const double begin = Clock().seconds();
  try {
    if (start) pending->work = start(*backend);
    pending->line.watch(pending->work, /*tells=*/!pending->call.point_to_point, group->timeout);
  } catch (const std::exception& error) {
    throw_failure(*group, pending->call, error);
  }
  pending->line.expose(Clock().seconds() - begin);
  return Pending(std::move(pending));
}

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;

const std::string& Communicator::axis() const {
  return state_->group->axis;
}
int64_t Communicator::size() const {
  return state_->group->size();
}
int64_t Communicator::rank() const {
  return state_->group->rank;
}
const std::vector<int64_t>& Communicator::ranks() const {
  return state_->group->ranks;
}

std::string Communicator::transport() const {
  return state_->backend ? state_->backend->getBackendName() : "";
}

std::string Groups::transport() const {
  std::set<std::string> names;
  for (const auto* communicators : {&by_axis_, &by_span_})
    for (const auto& communicator : *communicators)
      if (communicator->size() > 1) names.insert(communicator->transport());
  return fmt::format("{}", fmt::join(names, "+"));
}

Pending Communicator::all_reduce(at::Tensor tensor, Reduce op, Site site) {
  if (!state_->backend) return {};
  if (is_small(tensor)) return all_reduce_at_once(std::move(tensor), op, site);
  Pending pending =
      state_->issue(call_over("all_reduce", to_string(op), tensor, site), [&](c10d::Backend& backend) {
        c10d::AllreduceOptions options;
        options.reduceOp = to_c10d(op);
        std::vector<at::Tensor> tensors{lent(backend, tensor)};
        return backend.allreduce(tensors, options);
      });
  pending.keep(std::move(tensor));
  return pending;
}

bool Communicator::is_small(const at::Tensor& tensor) const {
  constexpr int64_t kMostBytes = 512 * 1024;
  return state_->is_slow_to_wake && static_cast<int64_t>(tensor.nbytes()) * (size() - 1) <= kMostBytes;
}

// One hop: all ranks tell all of it to all, and each reduces in rank order. A ring takes 2 (size - 1) hops
// through the backend's thread, and of a small message they are all the cost.
Pending Communicator::all_reduce_at_once(at::Tensor tensor, Reduce op, Site site) {
  const at::Tensor parts = rows_of(size(), tensor.numel(), tensor);
  Pending pending = state_->issue(
      call_over("all_reduce", to_string(op), tensor, site),
      [&](c10d::Backend& backend) {
        return gather(backend, parts.view({-1}), tensor.view({-1}), state_->group->timeout);
      },
      reduce_into(tensor, parts, op));
  pending.keep(parts);
  pending.keep(std::move(tensor));
  return pending;
}

// In place, each rank tells its part: Gloo's own gathers into a copy that its thread makes and frees at its
// own time, twice the memory and not the same from run to run.
Pending Communicator::all_gather(at::Tensor out, at::Tensor in, Site site) {
  check_pair("all_gather", out, in, size());
  if (!state_->backend) {
    at::NoGradGuard no_grad;
    out.view({-1}).copy_(in.view({-1}));
    return {};
  }
  Pending pending = state_->issue(call_over("all_gather", "", out, site), [&](c10d::Backend& backend) {
    return gather(backend, out, in, state_->group->timeout);
  });
  pending.keep(std::move(out));
  pending.keep(std::move(in));
  return pending;
}

// Gloo's own is a clone and an all-reduce: twice the bytes on the wire, and summed in no stated order.
Pending Communicator::reduce_scatter(at::Tensor out, at::Tensor in, Site site) {
  check_pair("reduce_scatter", in, out, size());
  if (!state_->backend) {
    at::NoGradGuard no_grad;
    out.view({-1}).copy_(in.view({-1}));
    return {};
  }
  const at::Tensor parts = rows_of(size(), in.numel() / size(), in);
  Pending pending = state_->issue(
      call_over("reduce_scatter", "", in, site),
      [&](c10d::Backend& backend) { return swap_parts(backend, parts, in); }, reduce_into(out, parts));
  pending.keep(parts);
  pending.keep(std::move(in));
  return pending;
}

Pending Communicator::reduce_scatter_in_parts(at::Tensor out, at::Tensor in, Site site) {
  check_pair("reduce_scatter", in, out, size());
  MUSTER_CHECK(state_->backend, "a group of one has no parts");
  const at::Tensor parts = rows_of(size(), in.numel() / size(), in);
  auto pending = state_->begin(call_over("reduce_scatter", "", in, site), reduce_into(out, parts));
  pending->send_part = part_sender(*state_->backend, parts, in, state_->group->timeout);
  pending->lent = {parts, in};
  return Pending(std::move(pending));
}

Pending Communicator::all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_counts,
                                 std::vector<int64_t> in_counts, Site site) {
  MUSTER_CHECK(
      static_cast<int64_t>(out_counts.size()) == size() && static_cast<int64_t>(in_counts.size()) == size(),
      "all_to_all among {}: {} and {} counts", size(), out_counts.size(), in_counts.size());
  if (!state_->backend) {
    at::NoGradGuard no_grad;
    out.copy_(in);
    return {};
  }
  Call call = call_over("all_to_all", "", in, site);
  call.tensor = c10::toString(in.scalar_type());  // sizes differ by rank; the counts are compared instead
  call.out_counts = out_counts;
  call.in_counts = in_counts;
  Pending pending = state_->issue(std::move(call), [&](c10d::Backend& backend) {
    at::Tensor to = lent(backend, out), from = lent(backend, in);
    return backend.all_to_all_single(to, from, out_counts, in_counts);
  });
  pending.keep(std::move(out));
  pending.keep(std::move(in));
  return pending;
}

Pending Communicator::broadcast(at::Tensor tensor, int64_t root, Site site) {
  if (!state_->backend) return {};
  Pending pending = state_->issue(call_over("broadcast", fmt::format("root {}", root), tensor, site),
                                  [&](c10d::Backend& backend) {
                                    c10d::BroadcastOptions options;
                                    options.rootRank = root;
                                    std::vector<at::Tensor> tensors{lent(backend, tensor)};
                                    return backend.broadcast(tensors, options);
                                  });
  pending.keep(std::move(tensor));
  return pending;
}

Pending Communicator::send(at::Tensor tensor, int64_t to, int tag, Site site) {
  MUSTER_CHECK(state_->backend && to != rank(), "send to itself");
  Call call = call_over("send", fmt::format("to {} tag {}", ranks().at(to), tag), tensor, site);
  call.point_to_point = true;
  Pending pending = state_->issue(std::move(call), [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    return backend.send(tensors, static_cast<int>(to), tag);
  });
  pending.keep(std::move(tensor));
  return pending;
}

Pending Communicator::receive(at::Tensor tensor, int64_t from, int tag, Site site) {
  MUSTER_CHECK(state_->backend && from != rank(), "receive from itself");
  Call call = call_over("receive", fmt::format("from {} tag {}", ranks().at(from), tag), tensor, site);
  call.point_to_point = true;
  Pending pending = state_->issue(std::move(call), [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    return backend.recv(tensors, static_cast<int>(from), tag);
  });
  pending.keep(std::move(tensor));
  return pending;
}

void Communicator::barrier(Site site) {
  if (!state_->backend) return;
  Call call;
  call.op = "barrier";
  call.site = site;
  state_->issue(std::move(call), [](c10d::Backend& backend) { return backend.barrier(); }).wait();
}

// Makes the groups of a rank in one order on all ranks.
class GroupMaker {
 public:
  using Connect = std::function<Wire(const Group&)>;
  GroupMaker(const spec::Mesh& mesh, int64_t rank, std::chrono::milliseconds timeout, const Connect& connect)
      : mesh_(mesh),
        rank_(rank),
        timeout_(timeout),
        connect_(connect),
        groups_(std::make_shared<MessageLog>()) {}

  Groups make() {
    for (spec::Axis axis : spec::kAxes) {
      const bool alone = mesh_.size(axis) == 1;
      groups_.by_axis_.push_back(
          add(spec::to_string(axis), alone ? std::vector{rank_} : mesh_.group(rank_, axis)));
    }
    for (spec::Span span : spec::kSpans)
      groups_.by_span_.push_back(with_ranks(mesh_.name(span), mesh_.group(rank_, span)));
    return std::move(groups_);
  }

 private:
  // A communicator that is there for these ranks already, or a new one.
  std::shared_ptr<Communicator> with_ranks(const std::string& name, const std::vector<int64_t>& ranks) {
    for (const auto* known : {&groups_.by_axis_, &groups_.by_span_})
      for (const auto& communicator : *known)
        if (communicator->ranks() == ranks) return communicator;
    return add(name, ranks);
  }

  std::shared_ptr<Communicator> add(const std::string& name, std::vector<int64_t> ranks) {
    const auto rank = std::ranges::find(ranks, rank_) - ranks.begin();
    auto group = std::make_shared<Group>(Group{name, std::move(ranks), rank, timeout_});
    auto state = std::make_unique<Communicator::State>();
    if (group->size() > 1) {
      Wire wire = connect_(*group);
      state->backend = std::move(wire.backend);
      state->agreement = std::move(wire.agreement);
      state->timed = wire.timed;
      state->is_slow_to_wake = wire.is_slow_to_wake;
    }
    state->group = std::move(group);
    state->log = groups_.log_;
    return std::make_shared<Communicator>(std::move(state));
  }

  const spec::Mesh& mesh_;
  int64_t rank_;
  std::chrono::milliseconds timeout_;
  const Connect& connect_;
  Groups groups_;
};

Groups make_groups(const spec::Mesh& mesh, int64_t rank, std::chrono::milliseconds timeout,
                   const std::function<Wire(const Group&)>& connect_group) {
  return GroupMaker(mesh, rank, timeout, connect_group).make();
}

}  // namespace muster::comm
