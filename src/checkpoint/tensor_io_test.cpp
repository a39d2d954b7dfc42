#include "checkpoint/tensor_io.h"

#include "base/error.h"
#include "checkpoint/testing.h"

namespace muster::checkpoint {
namespace {

TEST(TensorIo, EveryDtypeComesBackBitwise) {
  const TestFolder folder;
  std::map<std::string, at::Tensor> tensors;
  const at::Tensor bytes = at::randint(0, 256, {6, 8}, at::kByte);
  for (at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kFloat8_e4m3fn,
                              at::kFloat8_e5m2, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte})
    tensors[at::toString(type)] = bytes.view(type);
  tensors["bool"] = bytes > 100;
  write_tensors(folder / "a", tensors);
  const SafetensorsFile file(folder / "a");
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor back = at::zeros_like(tensor);
    read_tensor(file, *file.find(name), back);
    EXPECT_TRUE(at::equal(back.view(at::kByte), tensor.contiguous().view(at::kByte))) << name;
  }
}

TEST(TensorIo, ReadsASliceAlongAnyDim) {
  const TestFolder folder;
  const at::Tensor whole = at::randn({4, 6, 5});
  write_tensors(folder / "a", {{"x", whole}});
  const SafetensorsFile file(folder / "a");
  const TensorEntry& entry = *file.find("x");
  for (int64_t dim = 0; dim < 3; ++dim)
    for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      std::vector<int64_t> shape = whole.sizes().vec();
      shape[dim] = 2;
      const at::Tensor part = at::empty(shape, type);
      const spec::Piece piece(entry.shape, {static_cast<int>(dim), {{0, 1, 2}}});
      read_tensor(file, entry, Destination(part, piece));
      EXPECT_TRUE(at::equal(part, whole.narrow(dim, 1, 2).to(type))) << dim << " " << at::toString(type);
    }
}

// What a rank of tensor 2 x shards 3 holds: an odd range of every second column; short runs and long ones.
TEST(TensorIo, ReadsAFlatRangeOfAPart) {
  const TestFolder folder;
  const at::Tensor whole = at::arange(64 * 40000, at::kFloat).view({64, 40000});
  write_tensors(folder / "a", {{"x", whole}});
  const SafetensorsFile file(folder / "a");
  for (const spec::Part& part : {spec::Part{1, {{0, 20000, 20000}}}, {1, {{0, 5, 3}, {3, 90, 2}}}}) {
    std::vector<at::Tensor> held;
    for (const spec::IndexRun& run : part.runs) held.push_back(whole.narrow(1, run.global, run.size));
    const at::Tensor flat = at::cat(held, 1).flatten();
    const int64_t first = flat.numel() / 3 + 1, last = 2 * flat.numel() / 3 + 1;
    const spec::Piece piece = spec::Piece({64, 40000}, part).narrow(first, last);
    for (at::ScalarType type : {at::kFloat, at::kDouble}) {
      const at::Tensor back = at::full({last - first}, -1, type);
      read_tensor(file, *file.find("x"), Destination(back, piece));
      EXPECT_TRUE(at::equal(back, flat.slice(0, first, last).to(type)));
    }
  }
}

TEST(TensorIo, FillsScalarsAndNoStridedViews) {
  const TestFolder folder;
  write_tensors(folder / "a", {{"x", at::randn({3, 3})}, {"scalar", at::scalar_tensor(2.5)}});
  const SafetensorsFile file(folder / "a");
  EXPECT_THROW(read_tensor(file, *file.find("x"), at::zeros({3, 3}).t()), Bug);
  const at::Tensor scalar = at::zeros({}, at::kDouble);
  read_tensor(file, *file.find("scalar"), scalar);
  EXPECT_EQ(scalar.item<double>(), 2.5);
}

TEST(TensorIo, ConvertsMoreThanOneStagingPiece) {
  const TestFolder folder;
  const at::Tensor whole = at::arange(3 * kStagingBytes / 4 + 5, at::kInt);
  write_tensors(folder / "a", {{"x", whole}});
  const SafetensorsFile file(folder / "a");
  const at::Tensor back = at::empty(whole.sizes(), at::kLong);
  read_tensor(file, *file.find("x"), back);
  EXPECT_TRUE(at::equal(back, whole.to(at::kLong)));
}

TEST(TensorIo, RefusesADestinationOfAnotherShape) {
  const TestFolder folder;
  write_tensors(folder / "a", {{"x", at::ones({3, 4})}});
  const SafetensorsFile file(folder / "a");
  EXPECT_THROW(read_tensor(file, *file.find("x"), at::empty({4, 3})), Bug);
  EXPECT_THROW(read_tensor(file, *file.find("x"), at::empty({12})), Bug);
  const spec::Piece row({3, 4}, {0, {{0, 2, 1}}});
  EXPECT_THROW(read_tensor(file, *file.find("x"), Destination(at::empty({2, 4}), row)), Bug);
}

}  // namespace
}  // namespace muster::checkpoint
