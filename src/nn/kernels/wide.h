// bfloat16 is a format of memory: what is read of it is computed in fp32, and what is written is rounded
// once, to nearest with ties to even. float and double are computed in as they are.
#pragma once
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace muster::nn::kernels {

// The type that a type of memory is computed in.
template <class T>
using wide_t = std::conditional_t<std::is_same_v<T, c10::BFloat16>, float, T>;
template <class T>
constexpr bool kIsNarrow = !std::is_same_v<T, wide_t<T>>;

inline __attribute__((always_inline)) float wide(float x) {
  return x;
}
inline __attribute__((always_inline)) double wide(double x) {
  return x;
}
inline __attribute__((always_inline)) float wide(const c10::BFloat16& x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16);
}

// Without branches, so that loops vectorise. A NaN stays one: adding to its bits might carry it to -0.
inline __attribute__((always_inline)) uint16_t rounded_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>((x != x ? bits | 0x400000 : rounded) >> 16);
}
template <class T>
inline __attribute__((always_inline)) T rounded(wide_t<T> x) {
  if constexpr (kIsNarrow<T>)
    return T(rounded_bits(x), T::from_bits());
  else
    return x;
}

// Sums that are made in the wide type and end in memory of type T, rounded once. Where T is wide itself they
// are made in place, and nothing is copied.
template <class T>
class RoundedSums {
 public:
  // The sums begin with what is there, or with zeros.
  RoundedSums(T* to, int64_t size, bool accumulate) : to_(to), size_(size) {
    if constexpr (kIsNarrow<T>) sums_.resize(static_cast<size_t>(size));
    if (!accumulate)
      std::fill(data(), data() + size, wide_t<T>(0));
    else if constexpr (kIsNarrow<T>)
      std::transform(to, to + size, sums_.begin(), [](T x) { return wide(x); });
  }
  wide_t<T>* data() {
    if constexpr (kIsNarrow<T>)
      return sums_.data();
    else
      return to_;
  }
  void store() {
    if constexpr (kIsNarrow<T>)
      std::transform(sums_.begin(), sums_.end(), to_, [](wide_t<T> x) { return rounded<T>(x); });
  }

 private:
  T* to_;
  int64_t size_;
  std::vector<wide_t<T>> sums_;
};

}  // namespace muster::nn::kernels
