// What a person is told when ranks disagree, do not come, or cannot meet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/error.h"
#include "comm/rendezvous.h"
#include "comm/socket.h"
#include "comm/state.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using spec::Axis;
using testing::AllOf;
using testing::HasSubstr;

struct Failure {
  WorldError::Kind kind;
  std::string text;
};

std::optional<Failure> failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const WorldError& error) {
    return Failure{error.kind(), error.what()};
  }
  return std::nullopt;
}

// What each of two ranks, threads of this process, is told.
std::vector<std::optional<Failure>> failures_of_two(const GroupOptions& options,
                                                    const std::function<void(Communicator&)>& body) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const spec::Mesh mesh({2, 1, 1, 1, 1}, {Axis::data, Axis::tensor, Axis::context, Axis::pipeline});
  std::vector<std::optional<Failure>> failures(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      World world;
      world.rank = world.local_rank = rank;
      world.size = world.local_size = 2;
      Groups groups = connect_over(store, mesh, world, "cpu", 10s, options);
      failures[static_cast<size_t>(rank)] = failure_of([&] { body(groups.on(Axis::data)); });
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

using Calls = std::function<void(Communicator&)>;

// Rank 0 makes one call, rank 1 another; both are told of both.
void expect_mismatch(const Calls& of_0, const Calls& of_1, const std::string& text_0,
                     const std::string& text_1, int operation = 0) {
  GroupOptions options;
  options.check = true;
  options.collective_timeout = 5s;
  const auto failures =
      failures_of_two(options, [&](Communicator& data) { (data.rank() == 0 ? of_0 : of_1)(data); });
  for (const std::optional<Failure>& failure : failures) {
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->kind, WorldError::Kind::mismatch);
    EXPECT_THAT(failure->text, AllOf(HasSubstr("data axis, operation " + std::to_string(operation)),
                                     HasSubstr(text_0 + " at src/comm/failure_test.cpp:"),
                                     HasSubstr(text_1 + " at src/comm/failure_test.cpp:")));
  }
}

Calls reduce(std::vector<int64_t> shape, at::ScalarType dtype = at::kFloat) {
  return [=](Communicator& data) { data.all_reduce(at::zeros(shape, dtype)).wait(); };
}

TEST(B038, unequal_sizes) {
  expect_mismatch(reduce({4}), reduce({5}), "rank 0 calls all_reduce sum Float [4]",
                  "rank 1 calls all_reduce sum Float [5]");
}

TEST(B038, unequal_dtypes) {
  expect_mismatch(reduce({4}), reduce({4}, at::kBFloat16), "all_reduce sum Float [4]",
                  "all_reduce sum BFloat16 [4]");
}

TEST(B038, unequal_operations) {
  const Calls broadcast = [](Communicator& data) { data.broadcast(at::zeros({4}), 0).wait(); };
  expect_mismatch(broadcast, reduce({4}), "broadcast root 0 Float [4]", "all_reduce sum Float [4]");
}

TEST(B038, unequal_roots_and_reductions) {
  const auto from = [](int64_t root) {
    return [root](Communicator& data) { data.broadcast(at::zeros({4}), root).wait(); };
  };
  expect_mismatch(from(0), from(1), "broadcast root 0 Float [4]", "broadcast root 1 Float [4]");
  const Calls most = [](Communicator& data) { data.all_reduce(at::zeros({4}), Reduce::maximum).wait(); };
  expect_mismatch(most, reduce({4}), "all_reduce maximum Float [4]", "all_reduce sum Float [4]");
}

TEST(B038, the_same_operations_in_another_order) {
  const Calls one = [](Communicator& data) {
    data.barrier();
    data.all_reduce(at::zeros({4})).wait();
    data.broadcast(at::zeros({4}), 0).wait();
  };
  const Calls other = [](Communicator& data) {
    data.barrier();
    data.broadcast(at::zeros({4}), 0).wait();
    data.all_reduce(at::zeros({4})).wait();
  };
  expect_mismatch(one, other, "all_reduce sum Float [4]", "broadcast root 0 Float [4]", 1);
}

TEST(B038, counts_that_do_not_meet) {
  // Rank 0 sends 2 rows to rank 1, which expects 1.
  const Calls two = [](Communicator& data) {
    data.all_to_all(at::zeros({2}), at::zeros({3}), {1, 1}, {1, 2}).wait();
  };
  const Calls one = [](Communicator& data) {
    data.all_to_all(at::zeros({2}), at::zeros({2}), {1, 1}, {1, 1}).wait();
  };
  expect_mismatch(two, one, "all_to_all Float to [1, 2] from [1, 1]",
                  "all_to_all Float to [1, 1] from [1, 1]");
}

TEST(B038, agreeing_ranks_go_on) {
  GroupOptions options;
  options.check = true;
  const auto failures = failures_of_two(options, [](Communicator& data) {
    for (int time = 0; time < 20; ++time) {
      at::Tensor sum = at::ones({3});
      data.all_reduce(sum).wait();
      EXPECT_EQ(sum[0].item<float>(), 2);
      const int64_t rows = data.rank() + 1;
      data.all_to_all(at::zeros({2 * rows}), at::zeros({3}), {rows, rows}, {1, 2}).wait();
    }
  });
  for (const std::optional<Failure>& failure : failures) EXPECT_FALSE(failure.has_value()) << failure->text;
}

TEST(Failure, a_rank_that_does_not_come_is_named_in_check_mode) {
  GroupOptions options;
  options.check = true;
  options.collective_timeout = 300ms;
  const auto failures = failures_of_two(options, [](Communicator& data) {
    if (data.rank() == 0) data.all_reduce(at::zeros({4})).wait();
  });
  ASSERT_TRUE(failures[0].has_value());
  EXPECT_EQ(failures[0]->kind, WorldError::Kind::timeout);
  EXPECT_THAT(failures[0]->text, HasSubstr("rank 1 did not come to operation 0"));
}

// Rank 1 does not come. Messages of every way of going: over the backend's thread, part by part, to one peer.
void expect_timeout(bool through_memory, const std::string& told,
                    const std::function<void(Communicator&)>& body) {
  GroupOptions options;
  options.through_memory = through_memory;
  options.collective_timeout = 300ms;
  const auto begin = std::chrono::steady_clock::now();
  const auto failures = failures_of_two(options, [&](Communicator& data) {
    if (data.rank() == 0) body(data);
    std::this_thread::sleep_for(600ms);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  ASSERT_TRUE(failures[0].has_value());
  EXPECT_EQ(failures[0]->kind, WorldError::Kind::timeout) << failures[0]->text;
  EXPECT_TRUE(failures[0]->text.starts_with("data axis (ranks 0, 1), operation 0: " + told))
      << failures[0]->text;
  if (through_memory) {
    EXPECT_THAT(failures[0]->text, HasSubstr("rank 1 did not come"));
  }
}

class EndOfMessage : public testing::TestWithParam<bool> {};

TEST_P(EndOfMessage, comes_at_its_timeout) {
  expect_timeout(GetParam(), "all_reduce sum Float [4] at ",
                 [](Communicator& data) { data.all_reduce(at::zeros({4})).wait(); });
  expect_timeout(GetParam(), "all_reduce sum Float [1000000] at ",
                 [](Communicator& data) { data.all_reduce(at::zeros({1000000})).wait(); });
  expect_timeout(GetParam(), "all_gather Float [8] at ",
                 [](Communicator& data) { data.all_gather(at::zeros({8}), at::zeros({4})).wait(); });
  expect_timeout(GetParam(), "receive from 1 tag 7 Float [4] at ",
                 [](Communicator& data) { data.receive(at::zeros({4}), 1, 7).wait(); });
}

INSTANTIATE_TEST_SUITE_P(through, EndOfMessage, testing::Bool(),
                         [](const auto& info) { return info.param ? "memory" : "gloo"; });

// An error on its way through a rehearsal is what is told of, and no std::terminate.
TEST(Failure, in_a_rehearsal_drops_messages) {
  const spec::Mesh mesh({2, 1, 1, 1, 1}, {Axis::data, Axis::tensor, Axis::context, Axis::pipeline});
  Groups groups = without_peers(mesh, 0);
  Communicator& data = groups.on(Axis::data);
  const at::Tensor whole = at::zeros({4}), part = at::zeros({2});
  data.all_gather(whole, part);
  data.send(part, 1, 0);
  data.reduce_scatter_in_parts(part, whole).ready(1);
}

TEST(Failure, ranks_that_did_not_come_to_the_start_are_named) {
  World world;
  world.size = 4;
  world.master_port = 29500;
  c10d::HashStore store;
  const auto failure = failure_of([&] { wait_for_all(store, world, 200ms); });
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->text, HasSubstr("ranks 1-3 of 4 did not come to 127.0.0.1:29500"));

  const int file = ::memfd_create("store", MFD_CLOEXEC);
  world.store_file = fmt::format("/proc/self/fd/{}", file);
  const auto local = failure_of([&] { wait_for_all(*join_store(world, 200ms), world, 200ms); });
  ::close(file);
  ASSERT_TRUE(local.has_value());
  EXPECT_THAT(local->text, HasSubstr("ranks 1-3 of 4 did not come to this host's launcher"));
}

World joining(int port) {
  World world;
  world.rank = 1;
  world.size = 2;
  world.master_port = port;
  return world;
}

TEST(B036, a_port_that_is_held_is_named) {
  const Bound held = bind_to("127.0.0.1", 0);
  const auto begin = std::chrono::steady_clock::now();
  const auto failure = failure_of([&] { host_store("127.0.0.1", held.port, 5s); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  ::close(held.fd);
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->text, HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(held.port)));
}

TEST(B036, two_stores_take_free_ports_and_one_can_be_taken_again_at_once) {
  int port = 0;
  {
    const HostedStore one = host_store("127.0.0.1", 0, 10s), other = host_store("127.0.0.1", 0, 10s);
    EXPECT_NE(one.port, other.port);
    one.store->set("key", "one");
    other.store->set("key", "other");
    EXPECT_EQ(one.store->get_to_str("key"), "one");
    port = one.port;
  }
  EXPECT_EQ(host_store("127.0.0.1", port, 10s).port, port);
}

TEST(Failure, a_store_that_is_not_there_is_named_in_time) {
  const Bound free = bind_to("127.0.0.1", 0);
  ::close(free.fd);
  const auto begin = std::chrono::steady_clock::now();
  const auto failure = failure_of([&] { join_store(joining(free.port), 500ms); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, WorldError::Kind::timeout);
  EXPECT_THAT(failure->text, HasSubstr("cannot reach 127.0.0.1:" + std::to_string(free.port)));
}

TEST(Failure, a_listener_that_is_no_store_is_named_in_time) {
  const Bound silent = bind_to("127.0.0.1", 0);
  const auto begin = std::chrono::steady_clock::now();
  const auto failure = failure_of([&] { join_store(joining(silent.port), 1s); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  ::close(silent.fd);
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->text, HasSubstr("127.0.0.1:" + std::to_string(silent.port)));
}

TEST(Failure, the_store_listens_on_loopback_alone) {
  const HostedStore hosted = host_store("127.0.0.1", 0, 10s);
  // Another process's socket on another loopback address can take the same port: the store has not taken all.
  const Bound beside = bind_to("127.0.0.2", hosted.port);
  EXPECT_EQ(beside.port, hosted.port);
  ::close(beside.fd);
}

}  // namespace
}  // namespace muster::comm
