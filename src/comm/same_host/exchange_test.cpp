// Ranks that are processes of their own: what threads of one process cannot show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/same_host/peer.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using spec::Axis;
using testing::HasSubstr;

constexpr int64_t kLarge = 1'000'000;

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
    options.collective_timeout = timeout_;
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

  // And waits until it is dead: a signal takes its time.
  void kill_first_child() {
    ::kill(children_.front(), SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(children_.front()), &info, WEXITED | WNOWAIT);
  }

  int64_t data_ = 2, tensor_ = 1;
  std::chrono::milliseconds timeout_ = 20s;
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

// Meets the others, and then does nothing until it is killed.
int meet_and_stay(Groups& groups) {
  groups.on(Axis::data).barrier();
  ::pause();
  return 0;
}

TEST_F(Processes, a_rank_that_is_killed_is_named_at_once) {
  fork_others([](int64_t, Groups& groups) { return meet_and_stay(groups); });
  Groups groups = connect_as(0);
  Communicator& data = groups.on(Axis::data);
  data.barrier();
  at::Tensor large = at::zeros({kLarge});
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

// A rank that dies with its message unread is named by whoever comes to read.
TEST_F(Processes, a_rank_whose_memory_is_gone_is_named) {
  fork_others([](int64_t, Groups& groups) {
    const at::Tensor large = at::zeros({kLarge});
    Pending sent = groups.on(Axis::data).send(large, 0, 1);
    return meet_and_stay(groups);
  });
  Groups groups = connect_as(0);
  Communicator& data = groups.on(Axis::data);
  data.barrier();
  kill_first_child();
  at::Tensor value = at::zeros({kLarge});
  EXPECT_THAT(failure_of([&] { data.receive(value, 1, 1).wait(); }),
              HasSubstr(fmt::format("process {} of rank 1 has ended", children_.front())));
}

// Nobody waits for a message, its tensor is let go of, and its memory asked for by the next one.
TEST_F(Processes, a_message_that_was_dropped_keeps_its_memory) {
  const auto drop = [](Communicator& data) {
    const at::Tensor seven = at::full({kLarge}, 7.0);
    Pending dropped = data.send(seven, 1, 3);
  };
  fork_others([](int64_t, Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    data.barrier();
    data.barrier();
    at::Tensor value = at::zeros({kLarge});
    data.receive(value, 0, 3).wait();
    return at::equal(value, at::full({kLarge}, 7.0)) ? 0 : 2;
  });
  Groups groups = connect_as(0);
  Communicator& data = groups.on(Axis::data);
  data.barrier();
  drop(data);
  const at::Tensor next = at::full({kLarge}, 9.0);
  data.barrier();
  expect_all_well();
}

// More receipts than a mailbox holds, to a rank that does not look at them until the sender has turned to
// other things: the rest of them leave though nobody waits for anything there.
TEST_F(Processes, letters_that_found_no_room_leave_later) {
  constexpr int kMessages = 300;
  fork_others([](int64_t, Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    const at::Tensor value = at::ones({4});
    std::vector<Pending> sent;
    for (int number = 0; number < kMessages; ++number) sent.push_back(data.send(value, 0, number));
    data.barrier();
    ::raise(SIGSTOP);
    for (Pending& message : sent) message.wait();
    return 0;
  });
  Groups groups = connect_as(0);
  Communicator& data = groups.on(Axis::data);
  data.barrier();
  int status = 0;
  ASSERT_EQ(::waitpid(children_.front(), &status, WUNTRACED), children_.front());
  ASSERT_TRUE(WIFSTOPPED(status));
  at::Tensor value = at::zeros({4});
  for (int number = 0; number < kMessages; ++number) data.receive(value, 1, number).wait();
  std::this_thread::sleep_for(50ms);
  ::kill(children_.front(), SIGCONT);
  expect_all_well();
}

void ignore(int) {}

// What sends this process signals all the time, as a profiler does.
class Signals {
 public:
  explicit Signals(std::chrono::microseconds every) {
    struct sigaction action {};
    action.sa_handler = ignore;
    ::sigaction(SIGALRM, &action, &before_);
    const timeval time{0, every.count()};
    const itimerval timer{time, time};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~Signals() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

TEST_F(Processes, a_rank_that_is_killed_is_named_while_signals_come) {
  fork_others([](int64_t, Groups&) {
    ::pause();
    return 0;
  });
  Groups groups = connect_as(0);
  const Signals signals(2ms);
  kill_first_child();
  EXPECT_THAT(failure_of([&] { groups.on(Axis::data).barrier(); }), HasSubstr("of rank 1 has ended"));
}

// A child of this process, with all its memory, of the number `process`; any for 0. -1: not allowed.
pid_t twin(pid_t process) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = process > 0 ? reinterpret_cast<uint64_t>(&process) : 0;
  args.set_tid_size = process > 0;
  const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  while (child == 0) ::pause();
  return child;
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// A signal that comes while it looks whether a peer is there is no peer's end.
TEST(Peer, is_alive_though_signals_come) {
  const pid_t child = twin(0);
  const Peer peer(child, 1);
  int lost = 0;
  {
    const Signals signals(20us);
    for (int look = 0; look < 50'000; ++look) lost += !peer.is_alive();
  }
  EXPECT_EQ(lost, 0);
  end(child);
  EXPECT_FALSE(peer.is_alive());
}

TEST(Peer, is_not_read_once_another_process_has_its_number) {
  const int64_t value = 7;
  const pid_t first = twin(0);
  const Peer peer(first, 3);
  int64_t got = 0;
  peer.read(&got, reinterpret_cast<uint64_t>(&value), sizeof value);
  EXPECT_EQ(got, 7);
  end(first);
  const pid_t second = twin(first);
  ASSERT_GT(second, 0) << "may not choose the number of a process";
  std::string told;
  try {
    peer.read(&got, reinterpret_cast<uint64_t>(&value), sizeof value);
  } catch (const std::runtime_error& error) {
    told = error.what();
  }
  end(second);
  EXPECT_EQ(told, fmt::format("process {} of rank 3 has ended", first));
}

using Watch = c10::weak_intrusive_ptr<c10::StorageImpl>;

Watch watch(const at::Tensor& tensor) {
  return tensor.storage().getWeakStorageImpl();
}

bool soon(const std::function<bool()>& is_true) {
  for (const auto end = std::chrono::steady_clock::now() + 5s; !is_true();) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Starts messages of every kind over memory of their own and waits for none. On all ranks alike.
std::vector<Watch> drop_messages(Communicator& group) {
  const int64_t other = 1 - group.rank();
  std::vector<Watch> watches;
  const auto filled = [&] {
    const at::Tensor tensor = at::full({kLarge}, 7.0, at::kFloat);
    watches.push_back(watch(tensor));
    return tensor;
  };
  group.send(filled(), other, 1);
  group.receive(filled(), other, 1);
  group.all_reduce(filled());
  group.all_gather(filled(), filled().narrow(0, 0, kLarge / 2));
  group.broadcast(filled(), 0);
  group.reduce_scatter(filled().narrow(0, 0, kLarge / 2), filled());
  group.all_to_all(filled(), filled(), {kLarge / 2, kLarge / 2}, {kLarge / 2, kLarge / 2});
  Pending in_parts = group.reduce_scatter_in_parts(filled().narrow(0, 0, kLarge / 2), filled());
  in_parts.ready(other);
  return watches;
}

TEST_F(Processes, memory_of_a_message_that_is_dropped_lives_until_it_is_over) {
  fork_others([](int64_t, Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    data.receive(at::empty({1}), 0, 9).wait();
    const std::vector<Watch> watches = drop_messages(data);
    const auto is_gone = [](const Watch& watch) { return watch.expired(); };
    if (!soon([&] { return std::ranges::all_of(watches, is_gone); })) return 2;
    data.barrier();
    return 0;
  });
  Groups groups = connect_as(0);
  Communicator& data = groups.on(Axis::data);
  const std::vector<Watch> watches = drop_messages(data);
  int64_t kept = 0;
  for (const Watch& watch : watches) kept += !watch.expired();
  EXPECT_EQ(kept, static_cast<int64_t>(watches.size()) - 2);  // what a reduce_scatter writes is its own
  data.send(at::zeros({1}), 1, 9).wait();
  for (const Watch& watch : watches) EXPECT_TRUE(soon([&] { return watch.expired(); }));
  data.barrier();
  expect_all_well();
}

// A rank that gave up does not know who still reads.
TEST_F(Processes, memory_of_a_message_that_failed_lives_as_long_as_its_group) {
  timeout_ = 200ms;
  fork_others([](int64_t, Groups&) {
    ::pause();
    return 0;
  });
  Watch watched(c10::intrusive_ptr<c10::StorageImpl>{});
  {
    Groups groups = connect_as(0);
    at::Tensor large = at::zeros({kLarge});
    watched = watch(large);
    Pending sum = groups.on(Axis::data).all_reduce(std::exchange(large, {}));
    EXPECT_THROW(sum.wait(), WorldError);
    sum = {};
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST_F(Processes, what_a_rank_that_left_had_offered_is_not_read) {
  fork_others([](int64_t, Groups& groups) {
    Communicator& data = groups.on(Axis::data);
    data.receive(at::empty({1}), 0, 9).wait();
    std::this_thread::sleep_for(100ms);
    const std::string told = failure_of([&] { data.receive(at::zeros({kLarge}), 0, 1).wait(); });
    return told.find("lost a peer (rank 0 has left)") != std::string::npos ? 0 : 2;
  });
  const at::Tensor large = at::zeros({kLarge});
  {
    Groups groups = connect_as(0);
    groups.on(Axis::data).send(large, 1, 1);
    groups.on(Axis::data).send(at::zeros({1}), 1, 9).wait();
  }
  expect_all_well();
}

// More letters than a mailbox holds, of messages that are over for this rank when they are sent.
constexpr int kManyLetters = 1000;

void send_many(Communicator& group) {
  for (int time = 0; time < kManyLetters; ++time) group.send(at::empty({0}), 1, 1).wait();
}

int receive_many(int64_t, Groups& groups) {
  std::this_thread::sleep_for(100ms);
  for (int time = 0; time < kManyLetters; ++time) groups.on(Axis::data).receive(at::empty({0}), 0, 1).wait();
  return 0;
}

TEST_F(Processes, letters_without_room_leave_before_their_rank_does) {
  timeout_ = 3s;
  fork_others(receive_many);
  {
    Groups groups = connect_as(0);
    send_many(groups.on(Axis::data));
  }
  expect_all_well();
}

// How long the thread takes for 50 messages that came before they are asked for, one after the other, while
// it sleeps for one that does not come. Each is polled every millisecond, after a millisecond in which the
// thread falls asleep again.
class Sleeper : public Processes {
 protected:
  std::chrono::duration<double, std::milli> time_of(int64_t elements) {
    fork_others([elements](int64_t, Groups& groups) {
      Communicator& data = groups.on(Axis::data);
      std::vector<Pending> sent;
      const at::Tensor value = at::zeros({elements}), large = at::zeros({kLarge});
      for (int time = 0; time < 50; ++time) sent.push_back(data.send(value, 0, 1));
      data.barrier();
      for (Pending& pending : sent) pending.wait();
      data.send(large, 0, 2).wait();
      return 0;
    });
    Groups groups = connect_as(0);
    Communicator& data = groups.on(Axis::data);
    data.barrier();
    const at::Tensor value = at::zeros({elements}), large = at::zeros({kLarge});
    Pending last = data.receive(large, 1, 2);
    const auto begin = std::chrono::steady_clock::now();
    for (int time = 0; time < 50; ++time) {
      std::this_thread::sleep_for(1ms);
      Pending next = data.receive(value, 1, 1);
      EXPECT_TRUE(soon([&] { return next.done(); }));
    }
    const auto taken = std::chrono::steady_clock::now() - begin;
    last.wait();
    expect_all_well();
    return taken;
  }
};

// 50 times 2 ms of polling, and as much again for a thread that does not run at once; 10 ms each if it slept
// on.
TEST_F(Sleeper, is_woken_by_a_large_message) {
  EXPECT_LT(time_of(100'000), 300ms);
}

// Not woken, but back at every tick of 2 ms.
TEST_F(Sleeper, looks_after_small_messages_at_every_tick) {
  EXPECT_LT(time_of(1'000), 350ms);
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
