#include "device/ledger.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace muster::device {
namespace {

using telemetry::MemoryEvent;

class Installed : public ::testing::Environment {
  void SetUp() override { install_ledgers(); }
};
const auto* const kInstalled = ::testing::AddGlobalTestEnvironment(new Installed);

at::Tensor floats(int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions().device(device).dtype(at::kFloat));
}

class LedgerOf : public ::testing::TestWithParam<at::DeviceType> {
 protected:
  at::Device device() const { return at::Device(GetParam()); }
  Ledger& books() const { return ledger(GetParam()); }
  // What `body` did to the books, in order.
  template <class Body>
  std::vector<std::pair<int64_t, Category>> events(Body&& body) const {
    std::vector<MemoryEvent> recorded;
    books().start_recording(&recorded);
    body();
    books().stop_recording();
    std::vector<std::pair<int64_t, Category>> result;
    for (const MemoryEvent& event : recorded) result.emplace_back(event.bytes, event.category);
    return result;
  }
};
using Events = std::vector<std::pair<int64_t, Category>>;

TEST_P(LedgerOf, CountsEveryByteUnderTheGuardsCategory) {
  const int64_t before = books().live(Category::activations), all = books().live();
  {
    const CategoryGuard guard(Category::activations);
    const at::Tensor a = floats(1000, device()), b = floats(1, device());
    EXPECT_EQ(books().live(Category::activations) - before, 4004);
    EXPECT_EQ(books().live() - all, 4004);
  }
  EXPECT_EQ(books().live(Category::activations), before);
  EXPECT_EQ(books().live(), all);
}

TEST_P(LedgerOf, TheHostsAccountIsNotTheDevices) {
  const int64_t before = books().live(Category::host_optimizer), all = books().live();
  books().reset_peak();
  const CategoryGuard guard(Category::host_optimizer);
  const at::Tensor a = floats(1000, device());
  EXPECT_EQ(books().live(Category::host_optimizer) - before, 4000);
  EXPECT_EQ(books().live(), all);
  EXPECT_EQ(books().peak(), all);
  EXPECT_EQ(books().scratch_peak(), books().live(Category::scratch));
}

TEST_P(LedgerOf, GuardsNestAndEnd) {
  EXPECT_EQ(current_category(), Category::other);
  EXPECT_EQ(events([&] {
              const CategoryGuard outer(Category::gradients);
              {
                const CategoryGuard inner(Category::optimizer);
                floats(2, device());
              }
              floats(3, device());
            }),
            (Events{{8, Category::optimizer},
                    {-8, Category::optimizer},
                    {12, Category::gradients},
                    {-12, Category::gradients}}));
  EXPECT_EQ(current_category(), Category::other);
}

// A tensor is freed from the category in which it was taken, whatever guard stands then.
TEST_P(LedgerOf, FreesWhereItBooked) {
  at::Tensor a;
  EXPECT_EQ(events([&] {
              {
                const CategoryGuard guard(Category::parameters);
                a = floats(5, device());
              }
              const CategoryGuard guard(Category::temporary);
              a = at::Tensor();
            }),
            (Events{{20, Category::parameters}, {-20, Category::parameters}}));
}

TEST_P(LedgerOf, ViewsAndNothingCostNothing) {
  const at::Tensor a = floats(12, device());
  EXPECT_EQ(events([&] {
              const at::Tensor view = a.view({3, 4}).narrow(0, 1, 2).t();
              const at::Tensor none = floats(0, device());
            }),
            Events{});
}

TEST_P(LedgerOf, RetagMovesTheWholeStorage) {
  at::Tensor a = floats(12, device());
  EXPECT_EQ(events([&] {
              retag(a.narrow(0, 3, 2), Category::gradients);
              retag(a, Category::gradients);
              a = at::Tensor();
            }),
            (Events{{-48, Category::other}, {48, Category::gradients}, {-48, Category::gradients}}));
}

TEST_P(LedgerOf, PeakLeavesScratchOut) {
  const at::Tensor held = floats(100, device());
  books().reset_peak();
  const int64_t before = books().peak(), scratch_before = books().scratch_peak();
  EXPECT_EQ(before, books().live());
  {
    const at::Tensor a = floats(10, device());
    const CategoryGuard guard(Category::scratch);
    const at::Tensor b = floats(1000, device());
  }
  floats(20, device());
  EXPECT_EQ(books().peak() - before, 80);
  EXPECT_EQ(books().scratch_peak() - scratch_before, 4000);
  books().reset_peak();
  EXPECT_EQ(books().peak(), before);
}

TEST_P(LedgerOf, CountsOtherThreads) {
  const int64_t before = books().live(Category::communication);
  at::Tensor a;
  std::thread([&] {
    const CategoryGuard guard(Category::communication);
    a = floats(7, device());
  }).join();
  EXPECT_EQ(books().live(Category::communication) - before, 28);
  std::thread([&] { a = at::Tensor(); }).join();
  EXPECT_EQ(books().live(Category::communication), before);
}

TEST_P(LedgerOf, ManyThreadsLoseNothing) {
  const int64_t before = books().live();
  std::vector<std::thread> threads;
  for (int64_t which = 1; which <= 4; ++which)
    threads.emplace_back([this, which] {
      for (int round = 0; round < 500; ++round) floats(which * 10, device());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(books().live(), before);
}

TEST_P(LedgerOf, LeavesTheOtherDeviceAlone) {
  Ledger& other = ledger(GetParam() == at::kCPU ? at::kMeta : at::kCPU);
  const int64_t before = other.live();
  const at::Tensor a = floats(1000, device());
  EXPECT_EQ(other.live(), before);
}

INSTANTIATE_TEST_SUITE_P(Devices, LedgerOf, ::testing::Values(at::kCPU, at::kMeta),
                         [](const auto& info) { return info.param == at::kCPU ? "cpu" : "meta"; });

TEST(Ledger, CpuMemoryIsAlignedForVectors) {
  for (int64_t count : {1, 3, 17, 100000})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(floats(count, at::kCPU).data_ptr()) % 64, 0u) << count;
}

TEST(Ledger, ForeignStorageIsLeftAlone) {
  float outside[4] = {};
  const at::Tensor a = at::from_blob(outside, {4}, at::kFloat);
  const int64_t before = ledger(at::kCPU).live();
  retag(a, Category::gradients);
  EXPECT_EQ(ledger(at::kCPU).live(), before);
}

TEST(Ledger, TooMuchIsAnErrorThatNamesTheBytes) {
  try {
    floats(int64_t{1} << 60, at::kCPU);
    FAIL() << "got 2^62 bytes";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("4611686018427387904 bytes"), std::string::npos) << error.what();
  }
}

TEST(Ledger, InstallingAgainChangesNothing) {
  const at::Tensor a = floats(10, at::kCPU);
  install_ledgers();
  const int64_t before = ledger(at::kCPU).live();
  const at::Tensor b = floats(10, at::kCPU);
  EXPECT_EQ(ledger(at::kCPU).live() - before, 40);
}

}  // namespace
}  // namespace muster::device
