// Ring attention (Liu et al. 2023): the keys and values of every rank go round the context group while each
// rank's queries meet those at hand, and the parts are joined by an online softmax. In backward they go round
// again, and their gradients follow them one hop behind until they are home. What waits and travels between
// two hops, the output and the gradients of queries, keys and values, is in the executor's format: bfloat16
// is rounded once a hop, and added in fp32.
//
// Everything here is collective over the group. Each hop is a send to the next rank and a receive from the
// one before, in an order that completes where a send waits for its receive.
#pragma once
#include <memory>

#include "nn/context/context_group.h"
#include "nn/ops/attention.h"

namespace muster::nn {

// One send and one receive that travel together.
class Hop {
 public:
  void start(const ContextGroup& group, const at::Tensor& out, const at::Tensor& in, int tag);
  void wait();

 private:
  comm::Pending sent_, received_;
};

// Keys and values on their way round: what is at hand is sent on while it is worked on.
class KeyValueRing {
 public:
  // Packs this rank's keys and values out of its rows, which may change then, and starts the first hop.
  KeyValueRing(Executor& run, const ContextGroup& group, const at::Tensor& qkv_NE, const HeadShape& heads);
  // Waits for the next rank's keys and values [N, 2 K D] and starts the hop after. To be called size - 1
  // times: call h gives those of peer(h), h from 1.
  const at::Tensor& advance();
  int64_t peer(int64_t hop) const { return (group_.rank() + group_.size() - hop) % group_.size(); }

 private:
  void start();
  ContextGroup group_;
  at::Tensor here_NK_, there_NK_;
  int64_t hops_left_;
  Hop hop_;
};

// As attention(), over the whole sequences of the group.
AttentionOutput ring_attention(Executor& run, const ContextGroup& group, const at::Tensor& qkv_NE,
                               const Positions& positions, const HeadShape& heads);
// As attention_backward(). `ring` was made from the same qkv_NE before.
void ring_attention_backward(Executor& run, const ContextGroup& group, KeyValueRing& ring, at::Tensor qkv_NE,
                             const AttentionOutput& saved, const at::Tensor& dout_NQ,
                             const Positions& positions, const HeadShape& heads);

}  // namespace muster::nn
