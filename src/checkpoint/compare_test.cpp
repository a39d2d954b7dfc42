// Two tensors on disk, compared over windows and over the pieces of their files.
#include "checkpoint/compare.h"

#include <gmock/gmock.h>

#include <limits>

#include "checkpoint/tensor_io.h"
#include "checkpoint/testing.h"

namespace muster::checkpoint {
namespace {

using ::testing::ElementsAre;

// Files with these two tensors, compared.
struct Pair {
  TestFolder folder;
  std::unique_ptr<TensorSet> a, b;
  Pair(const at::Tensor& x, const at::Tensor& y) {
    write_tensors(folder / "a", {{"x", x}});
    write_tensors(folder / "b", {{"x", y}});
    a = open_weights(folder / "a");
    b = open_weights(folder / "b");
  }
  TensorDifference difference() const { return compare(one(*a), one(*b)); }
  bool same() const { return are_same(one(*a), one(*b)); }
  static TensorOf one(const TensorSet& set) { return {set, *set.find("x")}; }
};

TEST(Compare, EqualBitsAreEqual) {
  const at::Tensor x = at::randn({3, 4});
  EXPECT_EQ(Pair(x, x).difference().differing, 0);
  EXPECT_TRUE(Pair(x, x).same());
  EXPECT_TRUE(Pair(x, x).difference().first.empty());
  const at::Tensor none = at::full({2}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(Pair(none, none).same());
}

TEST(Compare, CountsDistancesAndTheFirstPlace) {
  const at::Tensor x = at::full({3, 4}, 2.0), y = x.clone();
  y[1][2] = 3.0;
  y[2][0] = 1.0;
  const TensorDifference difference = Pair(x, y).difference();
  EXPECT_EQ(difference.differing, 2);
  EXPECT_EQ(difference.max_absolute, 1);
  EXPECT_EQ(difference.max_relative, 0.5);
  EXPECT_THAT(difference.first, ElementsAre(1, 2));
  EXPECT_FALSE(Pair(x, y).same());
}

// Bits tell -0 from 0, and are no distance; what is no number is infinitely far.
TEST(Compare, ZeroesAndWhatIsNoNumber) {
  const TensorDifference zeros = Pair(at::zeros({2}), at::zeros({2}).neg()).difference();
  EXPECT_EQ(zeros.differing, 2);
  EXPECT_EQ(zeros.max_absolute, 0);
  const TensorDifference none = Pair(at::ones({2}), at::ones({2}).log().reciprocal().mul(0)).difference();
  EXPECT_EQ(none.differing, 2);
  EXPECT_TRUE(std::isinf(none.max_absolute));
  EXPECT_TRUE(std::isinf(none.max_relative));
}

TEST(Compare, AcrossDtypesByValue) {
  at::Tensor x = at::ones({4});
  EXPECT_EQ(Pair(x, x.to(at::kBFloat16)).difference().differing, 0);
  EXPECT_FALSE(Pair(x, x.to(at::kBFloat16)).same());
  x[3] = 1 + 0x1p-20;
  EXPECT_THAT(Pair(x, x.to(at::kBFloat16)).difference().first, ElementsAre(3));
}

TEST(Compare, FindsAPlaceBehindTheFirstWindow) {
  const at::Tensor x = at::zeros({3, kStagingBytes / 4}), y = x.clone();
  y[2][5] = -1;
  const TensorDifference difference = Pair(x, y).difference();
  EXPECT_EQ(difference.differing, 1);
  EXPECT_THAT(difference.first, ElementsAre(2, 5));
  EXPECT_FALSE(Pair(x, y).same());
  EXPECT_FALSE(Pair(x, x.view({-1})).same());
}

}  // namespace
}  // namespace muster::checkpoint
