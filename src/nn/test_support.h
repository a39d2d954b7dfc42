// What tests of this room share: agreement within a tolerance that follows from the type, numbers of threads,
// and tensors that are the same in every run.
#pragma once
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

namespace muster::nn {

using Tensors = std::vector<at::Tensor>;

// Sets the number of intra-op threads until its end.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

inline at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble).to(dtype);
}
// int32 in [low, high).
inline at::Tensor integers(int64_t low, int64_t high, int64_t count, uint64_t seed) {
  return at::randint(low, high, {count}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kInt);
}

inline double epsilon(at::ScalarType dtype) {
  return dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                              : std::numeric_limits<float>::epsilon();
}

// The largest difference, over the largest expected value.
inline double relative_error(const at::Tensor& measured, const at::Tensor& expected) {
  if (expected.numel() == 0) return 0;
  const at::Tensor reference = expected.to(at::kDouble);
  const double scale = reference.abs().max().item<double>();
  return (measured.to(at::kDouble) - reference).abs().max().item<double>() / std::max(scale, 1e-300);
}

inline Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.clone());
  return result;
}
inline Tensors in_double(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(tensor.is_floating_point() ? tensor.to(at::kDouble, false, /*copy=*/true)
                                                : tensor.clone());
  return result;
}

// `kernel` and `composite` take the same tensors and write some of them. Every tensor must agree afterwards,
// inputs too: the kernel with one thread and with two bit for bit, kernel and composite in the tensors' own
// type with the composite in fp64 within `epsilons` of the type.
inline void expect_agreement(const Tensors& tensors, double epsilons,
                             const std::function<void(Tensors&)>& kernel,
                             const std::function<void(Tensors&)>& composite) {
  Tensors one = copies(tensors), two = copies(tensors), own = copies(tensors), reference = in_double(tensors);
  {
    const Threads threads(1);
    kernel(one);
  }
  {
    const Threads threads(2);
    kernel(two);
  }
  composite(own);
  composite(reference);
  const double tolerance = epsilons * epsilon(tensors[0].scalar_type());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(one[i].equal(two[i])) << "tensor " << i << ": one thread and two differ";
    EXPECT_LE(relative_error(one[i], reference[i]), tolerance) << "tensor " << i << " of the kernel";
    EXPECT_LE(relative_error(own[i], reference[i]), tolerance) << "tensor " << i << " of the composite";
  }
}

// Sizes that no vector width divides, one row, rows over several blocks.
inline void over_shapes(const std::function<void(int64_t rows, int64_t size)>& body) {
  for (int64_t rows : {1, 5, 130})
    for (int64_t size : {1, 3, 17, 64, 513}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << size);
      body(rows, size);
    }
}

template <class T>
constexpr at::ScalarType kType = std::is_same_v<T, double> ? at::kDouble : at::kFloat;
using Types = ::testing::Types<float, double>;

}  // namespace muster::nn
