// Ranks that are processes of their own: what threads of one process cannot show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/error.h"
#include "comm/communicator.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using spec::Axis;
using testing::HasSubstr;

// Ranks of a mesh of data x tensor that meet in a file: rank 0 in this process, the others in children of it.
class Processes : public testing::Test {
 protected:
  Processes() { ::close(::mkstemp(store_.data())); }
  ~Processes() override {
    for (pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    ::unlink(store_.c_str());
  }

  Groups connect_as(int64_t rank) const {
    World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = data_ * tensor_;
    world.store_file = store_;
    const spec::Mesh mesh({data_, tensor_, 1, 1, 1},
                          {Axis::tensor, Axis::context, Axis::data, Axis::pipeline});
    GroupOptions options;
    options.collective_timeout = 20s;
    return connect(mesh, world, "cpu", 20s, options);
  }

  // Runs `body` as each other rank; its exit status is what the body returns.
  void fork_others(const std::function<int(int64_t rank, Groups&)>& body) {
    for (int64_t rank = 1; rank < data_ * tensor_; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        at::set_num_threads(1);  // the threads of the parent's are not here
        int status = 1;
        try {
          Groups groups = connect_as(rank);
          status = body(rank, groups);
        } catch (const std::exception& error) {
          fprintf(stderr, "rank %ld: %s\n", static_cast<long>(rank), error.what());
        }
        ::_exit(status);
      }
      children_.push_back(child);
    }
  }

  void expect_all_well() {
    for (pid_t child : children_) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    children_.clear();
  }

  int64_t data_ = 2, tensor_ = 1;
  std::string store_ = "/tmp/muster-processes-XXXXXX";
  std::vector<pid_t> children_;
};

// Messages of all sizes on two axes, some waited for late and in another order than they were made.
int talk(Groups& groups) {
  std::vector<at::Tensor> sums;
  std::vector<Pending> pending;
  for (int64_t round = 0; round < 60; ++round) {
    Communicator& group = groups.on(round % 2 ? Axis::data : Axis::tensor);
    const int64_t n = 1 + round * round * round * 5;
    at::Tensor sum = at::full({n}, static_cast<double>(group.rank() + round), at::kFloat);
    pending.push_back(group.all_reduce(sum));
    sums.push_back(sum);
    at::Tensor whole = at::empty({2 * n}, at::kFloat);
    group.all_gather(whole, at::full({n}, static_cast<double>(group.rank()), at::kFloat)).wait();
    if (whole[0].item<float>() != 0 || whole[2 * n - 1].item<float>() != 1) return 2;
    group.barrier();
  }
  while (!pending.empty()) {
    pending.back().wait();
    pending.pop_back();
  }
  for (int64_t round = 0; round < 60; ++round) {
    const at::Tensor& sum = sums[static_cast<size_t>(round)];
    if (!at::equal(sum, at::full_like(sum, static_cast<double>(2 * round + 1)))) return 3;
  }
  return 0;
}

TEST_F(Processes, talk_on_two_axes_at_once) {
  tensor_ = 2;
  fork_others([](int64_t, Groups& groups) { return talk(groups); });
  Groups groups = connect_as(0);
  EXPECT_EQ(talk(groups), 0);
  expect_all_well();
}

// A small message whose receiver waits on another axis, for what comes only when the message has arrived:
// 0 -> 1 by tensor, then 0 -> 2 by data, 2 -> 3 by tensor, 3 -> 1 by data.
int pass_round(int64_t rank, Groups& groups) {
  Communicator &tensor = groups.on(Axis::tensor), &data = groups.on(Axis::data);
  at::Tensor value = at::ones({4}), first = at::zeros({4});
  switch (rank) {
    case 0:
      tensor.send(value, 1, 5).wait();
      data.send(value, 1, 6).wait();
      return 0;
    case 2:
      data.receive(first, 0, 6).wait();
      tensor.send(first, 1, 7).wait();
      return 0;
    case 3:
      tensor.receive(first, 0, 7).wait();
      data.send(first, 0, 8).wait();
      return 0;
  }
  Pending received = tensor.receive(first, 0, 5);
  data.receive(value, 1, 8).wait();
  received.wait();
  return at::equal(first, value) ? 0 : 2;
}

TEST_F(Processes, a_small_message_is_read_while_its_receiver_waits_elsewhere) {
  tensor_ = 2;
  fork_others(pass_round);
  Groups groups = connect_as(0);
  EXPECT_EQ(pass_round(0, groups), 0);
  expect_all_well();
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const WorldError& error) {
    EXPECT_EQ(error.kind(), WorldError::Kind::peer_lost);
    return error.what();
  }
  return "nothing";
}

TEST_F(Processes, a_rank_that_is_killed_is_named_at_once) {
  fork_others([](int64_t, Groups& groups) {
    groups.on(Axis::data).barrier();
    ::pause();
    return 0;
  });
  Groups groups = connect_as(0);
  Communicator& data = groups.on(Axis::data);
  data.barrier();
  at::Tensor large = at::zeros({1'000'000});
  Pending first = data.all_reduce(large);
  std::this_thread::sleep_for(50ms);
  ::kill(children_.front(), SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  const std::string lost = fmt::format("lost a peer (process {} of rank 1 has ended)", children_.front());
  EXPECT_THAT(failure_of([&] { first.wait(); }), HasSubstr(lost));
  EXPECT_THAT(failure_of([&] { data.all_reduce(at::zeros({4})).wait(); }), HasSubstr(lost));
  EXPECT_THAT(failure_of([&] { data.send(large, 1, 0).wait(); }), HasSubstr(lost));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
}

// The last message of a rank that then ends is still read.
TEST_F(Processes, what_a_rank_sent_before_its_end_arrives) {
  fork_others([](int64_t, Groups& groups) {
    groups.on(Axis::data).send(at::full({500'000}, 7.0), 0, 1).wait();
    return 0;
  });
  Groups groups = connect_as(0);
  std::this_thread::sleep_for(100ms);
  at::Tensor value = at::zeros({500'000});
  groups.on(Axis::data).receive(value, 1, 1).wait();
  EXPECT_TRUE(at::equal(value, at::full({500'000}, 7.0)));
  expect_all_well();
}

TEST_F(Processes, sizes_that_do_not_meet_are_told) {
  fork_others([](int64_t, Groups& groups) {
    try {
      groups.on(Axis::data).all_gather(at::empty({10}), at::zeros({5})).wait();
    } catch (const WorldError& error) {
      return 0;
    }
    return 1;
  });
  Groups groups = connect_as(0);
  std::string told;
  try {
    groups.on(Axis::data).all_gather(at::empty({8}), at::zeros({4})).wait();
  } catch (const WorldError& error) {
    EXPECT_EQ(error.kind(), WorldError::Kind::mismatch);
    told = error.what();
  }
  EXPECT_THAT(told, HasSubstr("rank 1 sends 20 bytes where 16 are expected"));
  expect_all_well();
}

}  // namespace
}  // namespace muster::comm
