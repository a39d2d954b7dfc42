// One suite for every backend: collectives x ranks x dtypes. Ranks are threads.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/state.h"
#include "device/ledger.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using spec::Axis;

spec::Mesh data_mesh(int64_t size) {
  return {{size, 1, 1, 1, 1}, {Axis::data, Axis::tensor, Axis::context, Axis::pipeline}};
}

// Runs `body` as every rank of a world on the data axis over Gloo, each a thread, and throws on what the
// first of them threw.
void as_ranks(int64_t size, const GroupOptions& options, const std::function<void(Groups&)>& body) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      World world;
      world.rank = world.local_rank = rank;
      world.size = world.local_size = size;
      try {
        Groups groups = connect_over(store, data_mesh(size), world, "cpu", 10s, options);
        body(groups);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void as_ranks(int64_t size, const std::function<void(Groups&)>& body) {
  as_ranks(size, {}, body);
}

GroupOptions through(bool memory) {
  GroupOptions options;
  options.through_memory = memory;
  return options;
}

// Rank r's part: r + 1, r + 2, ... in whole numbers, exact in every dtype tried.
at::Tensor part_of(int64_t rank, int64_t n, at::ScalarType dtype) {
  return (at::arange(n, at::kLong) + rank + 1).to(dtype);
}

class Conformance : public testing::TestWithParam<std::tuple<int64_t, at::ScalarType, bool>> {
 protected:
  int64_t size() const { return std::get<0>(GetParam()); }
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  void as_ranks(int64_t size, const std::function<void(Groups&)>& body) const {
    comm::as_ranks(size, through(std::get<2>(GetParam())), body);
  }
};

TEST_P(Conformance, all_reduce) {
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    at::Tensor sum = part_of(data.rank(), 5, dtype()), most = sum.clone(), least = sum.clone();
    Pending a = data.all_reduce(sum), b = data.all_reduce(most, Reduce::maximum);
    Pending c = data.all_reduce(least, Reduce::minimum);
    for (Pending* pending : {&a, &b, &c}) pending->wait();
    at::Tensor expected = part_of(0, 5, at::kLong);
    for (int64_t rank = 1; rank < size(); ++rank) expected += part_of(rank, 5, at::kLong);
    EXPECT_TRUE(at::equal(sum, expected.to(dtype()))) << sum;
    EXPECT_TRUE(at::equal(most, part_of(size() - 1, 5, dtype()))) << most;
    EXPECT_TRUE(at::equal(least, part_of(0, 5, dtype()))) << least;
  });
}

TEST_P(Conformance, all_gather_then_reduce_scatter) {
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    at::Tensor part = part_of(data.rank(), 3, dtype()), whole = at::empty({3 * size()}, dtype());
    data.all_gather(whole, part).wait();
    for (int64_t rank = 0; rank < size(); ++rank)
      EXPECT_TRUE(at::equal(whole.narrow(0, rank * 3, 3), part_of(rank, 3, dtype())));
    at::Tensor back = at::empty({3}, dtype());
    data.reduce_scatter(back, whole).wait();
    EXPECT_TRUE(at::equal(back, part * size())) << back;
  });
}

TEST_P(Conformance, reduce_scatter_of_parts_that_come_in_any_order) {
  if (size() == 1) return;  // a group of one has no parts
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    for (int64_t first = 0; first < size(); ++first) {
      at::Tensor whole = at::empty({3 * size()}, dtype()), sum = at::empty({3}, dtype());
      Pending pending = data.reduce_scatter_in_parts(sum, whole);
      for (int64_t at = 0; at < size(); ++at) {
        const int64_t rank = (first + data.rank() + at) % size();
        whole.narrow(0, 3 * rank, 3).copy_(part_of(rank, 3, dtype()));
        pending.ready(rank);
      }
      pending.wait();
      EXPECT_TRUE(at::equal(sum, part_of(data.rank(), 3, dtype()) * size())) << sum;
    }
  });
}

TEST_P(Conformance, all_to_all_with_counts_of_zero) {
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    // Rank r sends j rows to rank j, so rank 0 receives nothing.
    std::vector<int64_t> in_counts, out_counts(static_cast<size_t>(size()), data.rank());
    for (int64_t to = 0; to < size(); ++to) in_counts.push_back(to);
    const int64_t rows = size() * (size() - 1) / 2;
    at::Tensor in = at::full({rows, 2}, data.rank() + 1, dtype());
    at::Tensor out = at::zeros({data.rank() * size(), 2}, dtype());
    data.all_to_all(out, in, out_counts, in_counts).wait();
    for (int64_t from = 0; from < size(); ++from)
      EXPECT_TRUE(at::equal(out.narrow(0, from * data.rank(), data.rank()),
                            at::full({data.rank(), 2}, from + 1, dtype())));
  });
}

TEST_P(Conformance, broadcast_from_the_last) {
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    at::Tensor tensor = part_of(data.rank(), 4, dtype());
    data.broadcast(tensor, size() - 1).wait();
    EXPECT_TRUE(at::equal(tensor, part_of(size() - 1, 4, dtype())));
    data.barrier();
  });
}

TEST_P(Conformance, a_ring_of_sends) {
  if (size() == 1) return;  // a group of one has no one to send to
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    const int64_t next = (data.rank() + 1) % size(), before = (data.rank() + size() - 1) % size();
    at::Tensor mine = part_of(data.rank(), 4, dtype()), theirs = at::empty({4}, dtype());
    Pending sent = data.send(mine, next, 7), received = data.receive(theirs, before, 7);
    received.wait();
    sent.wait();
    EXPECT_TRUE(at::equal(theirs, part_of(before, 4, dtype())));
  });
}

// Longer than a chunk, not a multiple of one or of the group, and too large to be told at once.
TEST_P(Conformance, large_all_reduce) {
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    const int64_t n = 700'001;
    // Whole numbers that bfloat16 holds, and their sums too.
    const auto values_of = [&](int64_t rank) {
      return (at::arange(n, at::kLong) % 13 * (rank + 1) - 20).to(dtype());
    };
    at::Tensor sum = values_of(data.rank()), most = sum.clone(), least = sum.clone();
    Pending a = data.all_reduce(sum), b = data.all_reduce(most, Reduce::maximum);
    Pending c = data.all_reduce(least, Reduce::minimum);
    for (Pending* pending : {&b, &a, &c}) pending->wait();
    at::Tensor expected = values_of(0).to(at::kLong), highest = expected.clone(), lowest = expected.clone();
    for (int64_t rank = 1; rank < size(); ++rank) {
      const at::Tensor values = values_of(rank).to(at::kLong);
      expected += values;
      at::maximum_out(highest, highest, values);
      at::minimum_out(lowest, lowest, values);
    }
    EXPECT_TRUE(at::equal(sum, expected.to(dtype())));
    EXPECT_TRUE(at::equal(most, highest.to(dtype())));
    EXPECT_TRUE(at::equal(least, lowest.to(dtype())));
  });
}

TEST_P(Conformance, large_messages_beside_each_other) {
  if (size() == 1) return;  // nothing travels
  as_ranks(size(), [&](Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    const int64_t n = 300'000, next = (data.rank() + 1) % size(),
                  before = (data.rank() + size() - 1) % size();
    for (int round = 0; round < 3; ++round) {
      const at::Tensor part = at::full({n}, data.rank() + round, dtype());
      at::Tensor whole = at::empty({n * size()}, dtype()), again = at::empty({n * size()}, dtype());
      at::Tensor theirs = at::empty({n}, dtype());
      Pending gathered = data.all_gather(whole, part), sent = data.send(part, next, 3);
      Pending received = data.receive(theirs, before, 3);
      Pending swapped = data.all_to_all(again, whole.clone(), std::vector<int64_t>(size(), n),
                                        std::vector<int64_t>(size(), n));
      received.wait();
      EXPECT_TRUE(at::equal(theirs, at::full({n}, before + round, dtype())));
      swapped.wait();
      gathered.wait();
      sent.wait();
      for (int64_t rank = 0; rank < size(); ++rank)
        EXPECT_TRUE(at::equal(whole.narrow(0, rank * n, n), at::full({n}, rank + round, dtype())));
    }
  });
}

const auto kDtypes = testing::Values(at::kDouble, at::kFloat, at::kLong, at::kBFloat16);
INSTANTIATE_TEST_SUITE_P(gloo, Conformance,
                         testing::Combine(testing::Values(1, 2, 3, 4), kDtypes, testing::Values(false)));
INSTANTIATE_TEST_SUITE_P(memory, Conformance,
                         testing::Combine(testing::Values(2, 3, 4), kDtypes, testing::Values(true)));

// Sums that depend on their order: all ranks add in rank order, of floats that do not cancel exactly.
TEST(SameHost, adds_in_rank_order) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    as_ranks(4, through(true), [&](Groups& groups) {
      Communicator& data = groups.on(Axis::data);
      const int64_t n = 400'003;
      const auto values_of = [&](int64_t rank) {
        return at::sin(at::arange(n, at::kDouble) * static_cast<double>(rank + 1))
            .mul_(rank % 2 ? 1e-4 : 1e3)
            .to(dtype);
      };
      at::Tensor sum = values_of(data.rank()), expected = values_of(0).to(at::kFloat);
      data.all_reduce(sum).wait();
      for (int64_t rank = 1; rank < 4; ++rank) expected += values_of(rank).to(at::kFloat);
      EXPECT_TRUE(at::equal(sum, expected.to(dtype)));
    });
}

// Every kind of message once, with shapes of one rank.
void one_of_each(Communicator& group, at::Device device) {
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  const int64_t n = group.size(), next = (group.rank() + 1) % n, before = (group.rank() + n - 1) % n;
  at::Tensor part = at::empty({6}, options).zero_(), whole = at::empty({6 * n}, options).zero_();
  group.all_reduce(part).wait();
  Pending first = group.all_gather(whole, part), second = group.reduce_scatter(part, whole);
  second.wait();
  first.wait();
  group.all_to_all(whole, whole.clone(), std::vector<int64_t>(n, 6), std::vector<int64_t>(n, 6)).wait();
  group.broadcast(whole, 0).wait();
  Pending sent = group.send(part, next, 0), received = group.receive(whole.narrow(0, 0, 6), before, 0);
  received.wait();
  sent.wait();
  at::Tensor nothing = at::empty({0}, options), nothing_too = at::empty({0}, options);
  Pending parts = group.reduce_scatter_in_parts(part, whole);
  for (int64_t rank = 0; rank < n; ++rank) parts.ready(rank);
  parts.wait();
  group.all_reduce(nothing).wait();
  group.reduce_scatter(nothing, nothing_too).wait();
  group.barrier();
}

using Line = std::tuple<std::string, std::string, int64_t, int64_t, uint64_t>;
std::vector<Line> lines_of(const telemetry::StepRecord& record) {
  std::vector<Line> lines;
  for (const telemetry::MessageEvent& m : record.messages)
    lines.emplace_back(m.axis, m.op, m.bytes, m.group_size, m.sequence);
  return lines;
}

std::vector<Line> lines_without_peers(int64_t size, int64_t rank, at::Device device) {
  Groups groups = without_peers(data_mesh(size), rank);
  telemetry::StepRecord record;
  groups.log().record = &record;
  one_of_each(groups.on(Axis::data), device);
  for (const telemetry::MessageEvent& message : record.messages) EXPECT_EQ(message.done_seconds, 0);
  return lines_of(record);
}

TEST(Records, are_the_same_with_and_without_peers) {
  as_ranks(3, [&](Groups& groups) {
    telemetry::StepRecord record;
    groups.log().record = &record;
    Communicator& data = groups.on(Axis::data);
    one_of_each(data, at::kCPU);
    EXPECT_EQ(lines_of(record), lines_without_peers(3, data.rank(), at::kMeta));
    EXPECT_EQ(lines_of(record), lines_without_peers(3, data.rank(), at::kCPU));
    ASSERT_EQ(record.messages.size(), 11u);
    EXPECT_EQ(lines_of(record)[0], Line("data", "all_reduce", 24, 3, 0));
    EXPECT_EQ(lines_of(record)[1], Line("data", "all_gather", 72, 3, 1));
    EXPECT_EQ(lines_of(record)[2], Line("data", "reduce_scatter", 72, 3, 2));
    for (const telemetry::MessageEvent& message : record.messages) {
      EXPECT_GT(message.issued_seconds, 0);
      EXPECT_GE(message.done_seconds, message.issued_seconds);
      EXPECT_GE(message.exposed_seconds, 0);
    }
  });
}

TEST(Records, are_the_same_over_all_axes_of_a_large_mesh) {
  const spec::Mesh mesh({64, 8, 1, 1, 1}, {Axis::tensor, Axis::context, Axis::data, Axis::pipeline});
  Groups groups = without_peers(mesh, 511);
  EXPECT_EQ(groups.on(Axis::tensor).ranks(), (std::vector<int64_t>{504, 505, 506, 507, 508, 509, 510, 511}));
  EXPECT_EQ(groups.on(Axis::data).size(), 64);
  EXPECT_EQ(groups.on(Axis::data).rank(), 63);
  EXPECT_EQ(groups.on(Axis::pipeline).size(), 1);
}

TEST(Spans, AreToldByWhatTheyCoverAndShareTheGroupOfAnAxisWithTheSameRanks) {
  const std::vector<Axis> order{Axis::tensor, Axis::context, Axis::data, Axis::pipeline};
  Groups groups = without_peers(spec::Mesh({8, 1, 2, 1, 1}, order, /*replicas=*/4), 5);
  EXPECT_EQ(groups.on(spec::Span::tokens).size(), 16);
  EXPECT_EQ(groups.on(spec::Span::tokens).axis(), "data+context");
  EXPECT_EQ(groups.on(spec::Span::shard).ranks(), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(groups.on(spec::Span::replicate).rank(), 1);
  Groups plain = without_peers(spec::Mesh({8, 2, 1, 1, 1}, order), 5);
  EXPECT_EQ(&plain.on(spec::Span::tokens), &plain.on(Axis::data));
  EXPECT_EQ(&plain.on(spec::Span::shard), &plain.on(Axis::data));
  EXPECT_EQ(plain.on(spec::Span::replicate).size(), 1);
}

TEST(Records, leave_a_group_of_one_out) {
  EXPECT_TRUE(lines_without_peers(2, 0, at::kMeta).size() > 0);
  Groups groups = without_peers(data_mesh(1), 0);
  telemetry::StepRecord record;
  groups.log().record = &record;
  at::Tensor a = at::ones({2}), b = at::zeros({2});
  groups.on(Axis::data).all_reduce(a).wait();
  groups.on(Axis::data).all_gather(b, a).wait();
  groups.on(Axis::data).barrier();
  EXPECT_TRUE(at::equal(b, a));
  EXPECT_TRUE(record.messages.empty());
}

// The scratch of a reduce-scatter is booked alike on a rehearsal's tensors and on real ones.
TEST(Records, book_the_same_scratch) {
  device::install_ledgers();
  std::map<at::DeviceType, std::vector<std::pair<int64_t, device::Category>>> booked;
  for (at::DeviceType type : {at::kCPU, at::kMeta}) {
    Groups groups = without_peers(data_mesh(4), 1);
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      at::Tensor in = at::empty({4000}, at::TensorOptions(type).dtype(dtype)).zero_();
      at::Tensor out = at::empty({1000}, in.options());
      std::vector<telemetry::MemoryEvent> events;
      device::ledger(type).start_recording(&events);
      groups.on(Axis::data).reduce_scatter(out, in).wait();
      device::ledger(type).stop_recording();
      for (const telemetry::MemoryEvent& event : events)
        booked[type].emplace_back(event.bytes, event.category);
    }
  }
  EXPECT_EQ(booked[at::kCPU], booked[at::kMeta]);
  ASSERT_FALSE(booked[at::kMeta].empty());
  EXPECT_EQ(booked[at::kMeta].front(),
            (std::pair<int64_t, device::Category>(16000, device::Category::communication)));
}

}  // namespace
}  // namespace muster::comm
