// Orders of rows that other programs give to attention's projections, to Hugging Face's and back.
#pragma once
#include <ATen/ATen.h>

#include <array>

#include "spec/model/model.h"

namespace muster::checkpoint {

// Rotary positions turn pairs of rows of each head. Pair-wise (Meta's own checkpoints, GPT-NeoX's
// "interleaved" option): rows 2i and 2i+1 are a pair. Half-split (Hugging Face): rows i and i + head_dim/2.
// `rows` is a weight [heads * head_dim, in] or a bias [heads * head_dim] of queries or keys.
at::Tensor pairwise_to_half_split(const at::Tensor& rows, int64_t head_dim);
at::Tensor half_split_to_pairwise(const at::Tensor& rows, int64_t head_dim);

// Queries, keys and values as one matrix, group by group: the queries that share a key/value head, then that
// key, then that value. Four heads on two key/value heads: q0 q1 k0 v0 q2 q3 k1 v1. Equal slices of its rows
// are therefore whole groups (Megatron-LM's order of query groups).
at::Tensor fuse_qkv(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const spec::ModelSpec& model);
std::array<at::Tensor, 3> split_qkv(const at::Tensor& fused, const spec::ModelSpec& model);

}  // namespace muster::checkpoint
