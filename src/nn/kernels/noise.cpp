// Compiled without contraction of a * b + c, so that every instruction set draws the same bits.
#include <algorithm>
#include <bit>
#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

constexpr int kLanes = 64;           // Philox blocks drawn together
constexpr int kBatch = 4 * kLanes;   // words of one batch
constexpr int64_t kChunk = 1 << 16;  // positions that one thread takes at a time

// words[4 j + k] = word k of counter first + j.
template <class Word>
MUSTER_CLONES void draw_words(Word* words, uint64_t first, uint64_t high, PhiloxKey key) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int j = 0; j < kLanes; ++j) {
    const uint64_t counter = first + static_cast<uint64_t>(j);
    c0[j] = static_cast<uint32_t>(counter);
    c1[j] = static_cast<uint32_t>(counter >> 32);
    c2[j] = static_cast<uint32_t>(high);
    c3[j] = static_cast<uint32_t>(high >> 32);
  }
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < kLanes; ++j) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[j], p1 = uint64_t{0xCD9E8D57} * c2[j];
      c0[j] = static_cast<uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c2[j] = static_cast<uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c1[j] = static_cast<uint32_t>(p1);
      c3[j] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int j = 0; j < kLanes; ++j) {
    words[4 * j] = c0[j];
    words[4 * j + 1] = c1[j];
    words[4 * j + 2] = c2[j];
    words[4 * j + 3] = c3[j];
  }
}

// ln x for x in (0, 1]: exponent and mantissa apart, polynomial of degree 9 on [sqrt(1/2), sqrt(2)).
inline __attribute__((always_inline)) float log_of(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t exponent = (bits - 0x3f3504f3) >> 23;
  const float m = std::bit_cast<float>(bits - (exponent << 23)) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float e = static_cast<float>(exponent);
  return e * 0.69314718056f + (m - 0.5f * m * m + p * m * m * m);
}

// Normal numbers from pairs of words: radius from the first, angle from the second.
template <class Word>
MUSTER_CLONES void to_normal(float* normal, const Word* words) {
  for (int pair = 0; pair < kBatch / 2; ++pair) {
    const float u = static_cast<float>(static_cast<int32_t>((words[2 * pair] >> 8) + 1)) * 0x1p-24f;
    const float radius = std::sqrt(-2.0f * log_of(u));
    const float turn =
        static_cast<float>(static_cast<int32_t>(words[2 * pair + 1] >> 8)) * 0x1p-22f;  // [0, 4)
    const auto quadrant = static_cast<int32_t>(turn + 0.5f);
    const float a = (turn - static_cast<float>(quadrant)) * 1.57079632679f;  // [-pi/4, pi/4]
    const float a2 = a * a;
    const float sine = a + a * a2 * (-1.6666654611e-1f + a2 * (8.3321608736e-3f - a2 * 1.9515295891e-4f));
    const float cosine =
        1.0f - 0.5f * a2 + a2 * a2 * (4.166664568e-2f + a2 * (-1.388731625e-3f + a2 * 2.443315711e-5f));
    const float s = (quadrant & 1) ? cosine : sine;
    const float c = (quadrant & 1) ? sine : cosine;
    normal[2 * pair] = radius * (((quadrant + 1) & 2) ? -c : c);
    normal[2 * pair + 1] = radius * ((quadrant & 2) ? -s : s);
  }
}

template <class T>
MUSTER_CLONES void scale_range(T* __restrict x, const float* __restrict normal, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) x[i] = rounded<T>(static_cast<wide_t<T>>(normal[i] * scale));
}

template <class T>
MUSTER_CLONES void drop_range(T* out, const T* x, const uint32_t* words, int64_t count, uint32_t threshold,
                              wide_t<T> scale) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const wide_t<T> kept = wide(x[i]) * scale;
    out[i] = rounded<T>(words[i] >= threshold ? kept : wide_t<T>(0));
  }
}

// Calls body(values of one batch, its first position, begin, end) for the batches that overlap [first, first
// + count).
template <class Body>
void over_batches(int64_t count, int64_t first, Body&& body) {
  const int64_t from = first / kBatch, to = (first + count + kBatch - 1) / kBatch;
  at::parallel_for(from, to, kChunk / kBatch, [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) {
      const int64_t start = batch * kBatch;
      body(start, std::max(start, first), std::min(start + kBatch, first + count));
    }
  });
}

}  // namespace

template <class T>
void fill_normal(T* x, int64_t count, int64_t first, PhiloxKey key, double scale) {
  over_batches(count, first, [=](int64_t start, int64_t begin, int64_t end) {
    uint32_t words[kBatch];
    float normal[kBatch];
    draw_words(words, static_cast<uint64_t>(start / 4), 0, key);
    to_normal(normal, words);
    scale_range(x + (begin - first), normal + (begin - start), end - begin, static_cast<float>(scale));
  });
}

template <class T>
void dropout(T* out, const T* x, int64_t count, int64_t first, uint64_t draw, PhiloxKey key, double p) {
  const auto threshold = static_cast<uint32_t>(std::min(p * 0x1p32, 4294967295.0));
  const auto scale = static_cast<wide_t<T>>(1 / (1 - p));
  over_batches(count, first, [=](int64_t start, int64_t begin, int64_t end) {
    uint32_t words[kBatch];
    draw_words(words, static_cast<uint64_t>(start / 4), draw, key);
    const int64_t at = begin - first;
    drop_range(out + at, x + at, words + (begin - start), end - begin, threshold, scale);
  });
}

MUSTER_INSTANTIATE(fill_normal);
MUSTER_INSTANTIATE(dropout);

}  // namespace muster::nn::kernels
