// FLOPs of a token, and utilisation from tokens a second and back.
#pragma once
#include <cstdint>

#include "estimate/activations.h"

namespace muster::estimate {

// Which query-key pairs count: half of the square (causal), all of it, or none (the 6P convention).
enum class AttentionPairs { causal, full, none };
const char* to_string(AttentionPairs pairs);

// A training step's model FLOPs for one token: forward and backward, 6 for each parameter of a matmul.
struct TokenFlops {
  double linear = 0;     // projections and feed-forward
  double attention = 0;  // QK^T and PV
  double head = 0;       // vocabulary projection
  double total() const { return linear + attention + head; }
};

// 6 FLOPs a parameter: Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1 (C = 6N).
inline double six_flops(double matmul_parameters) {
  return 6 * matmul_parameters;
}

// 12 L w s over the full square, w = heads * head_dim: Chowdhery et al., "PaLM", 2022, appendix B (12 LHQT);
// half of it under the causal convention. Packed documents and sliding windows attend to fewer pairs.
double attention_flops(int64_t layers, int64_t width, int64_t sequence, AttentionPairs pairs);

// FLOPs that run: the model's and what recomputation adds. Full runs the layers' forward again, not the head
// (Narayanan et al., SC 2021, section 5.1, equation (3)); selective the attention matmuls'.
double hardware_flops(const TokenFlops& flops, Recompute recompute);

// Share of the peak: FLOPs a token * tokens a second / (devices * peak FLOPs a second of one).
inline double utilisation_of(double flops_per_token, double tokens_per_second, int64_t devices, double peak) {
  return flops_per_token * tokens_per_second / (static_cast<double>(devices) * peak);
}
inline double tokens_per_second_at(double utilisation, double flops_per_token, int64_t devices, double peak) {
  return utilisation * static_cast<double>(devices) * peak / flops_per_token;
}

}  // namespace muster::estimate
