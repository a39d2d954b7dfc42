// What tests of this room share: agreement within a tolerance that follows from the type, numbers of threads,
// and tensors that are the same in every run.
#pragma once
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "nn/wide.h"

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

// Of the arithmetic: bfloat16 is computed in fp32.
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

// How far bfloat16 numbers lie outside of what one rounding may do, at most 0: half a unit in the last place
// of a number that is within `error` of the expected one, and `error` itself. A unit of numbers in [2^e,
// 2^(e+1)) is 2^(e-7), that below the least normal one 2^-133.
inline double rounding_excess(const at::Tensor& measured, const at::Tensor& expected, double error) {
  if (expected.numel() == 0) return 0;
  const at::Tensor right = expected.to(at::kDouble);
  const at::Tensor exponent =
      std::get<1>(at::frexp((right.abs() + error).clamp_min(0x1p-140))).sub(1).clamp_min(-126);
  const at::Tensor allowed = at::exp2((exponent - 8).to(at::kDouble)) + error;
  return ((measured.to(at::kDouble) - right).abs() - allowed).max().item<double>();
}

// Of the expected numbers in fp64, within `epsilons` of the arithmetic, times the largest of them, and for
// bfloat16 with one rounding more.
inline void expect_near(const at::Tensor& measured, const at::Tensor& expected, double epsilons,
                        const std::string& what) {
  if (is_narrow(measured)) {
    const double largest = expected.numel() == 0 ? 0 : expected.to(at::kDouble).abs().max().item<double>();
    EXPECT_LE(rounding_excess(measured, expected, epsilons * epsilon(at::kBFloat16) * largest), 0) << what;
  } else {
    EXPECT_LE(relative_error(measured, expected), epsilons * epsilon(measured.scalar_type())) << what;
  }
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

// kernel(T{}, tensors) and composite(tensors) take the same tensors and write some of them. Every tensor must
// agree afterwards, inputs too: the kernel with one thread and with two bit for bit, kernel and composite in
// type T with the composite in fp64 within `epsilons` of the arithmetic. The kernel in fp64 stands for the
// composite where T is bfloat16: both then take the same numbers, which are exact in fp64, so that the
// results differ by the arithmetic in fp32 and by one rounding of what is stored in bfloat16.
template <class T, class Kernel>
void expect_agreement(const Tensors& tensors, double epsilons, const Kernel& kernel,
                      const std::function<void(Tensors&)>& composite) {
  Tensors one = copies(tensors), two = copies(tensors), own = copies(tensors), reference = in_double(tensors);
  {
    const Threads threads(1);
    kernel(T{}, one);
  }
  {
    const Threads threads(2);
    kernel(T{}, two);
  }
  composite(own);
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    kernel(double{}, reference);
  else
    composite(reference);
  const double slack = epsilons * epsilon(c10::CppTypeToScalarType<T>::value);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(one[i].equal(two[i])) << "tensor " << i << ": one thread and two differ";
    const double allowed = slack / epsilon(tensors[i].scalar_type());
    expect_near(one[i], reference[i], allowed, "tensor " + std::to_string(i) + " of the kernel");
    expect_near(own[i], reference[i], allowed, "tensor " + std::to_string(i) + " of the composite");
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
constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;
// Of the statistics beside T, and of the gradients of parameters in T.
template <class T>
constexpr at::ScalarType kStatistic = wide_type(kType<T>);
template <class T>
std::vector<at::ScalarType> gradient_types() {
  if (kType<T> == at::kBFloat16) return {at::kBFloat16, at::kFloat};
  return {kType<T>};
}
// over_shapes, for each type that a gradient may have.
template <class T>
void over_shapes_and_gradients(const std::function<void(int64_t, int64_t, at::ScalarType)>& body) {
  for (const at::ScalarType gradient : gradient_types<T>()) {
    SCOPED_TRACE(c10::toString(gradient));
    over_shapes([&](int64_t rows, int64_t size) { body(rows, size, gradient); });
  }
}
using Types = ::testing::Types<float, double, c10::BFloat16>;

}  // namespace muster::nn
