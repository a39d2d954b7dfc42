#include "nn/context/ring.h"

#include "base/error.h"

namespace muster::nn {
namespace {

constexpr int kKeyValues = 0, kGradients = 1;  // tags

at::Tensor zeros(Executor& run, at::IntArrayRef shape, Category category) {
  const at::Tensor x = run.empty(shape, category);
  run.run("zero", {0, bytes_of(x)}, [&] { x.zero_(); });
  return x;
}

// Gradients of keys and values behind the keys and values themselves: each rank adds its own and sends them
// on; after the last hop they are home.
class GradientRing {
 public:
  GradientRing(Executor& run, const ContextGroup& group, at::IntArrayRef shape)
      : run_(run), group_(group), arrived_NK_(run.empty(shape, Category::communication)) {}
  // Adds what has arrived to `mine`, this rank's share for the peer at hand, and sends the sum on.
  void pass_on(const at::Tensor& mine_NK) {
    if (leaving_NK_.defined()) {
      hop_.wait();
      run_.run("add", {0, 3 * bytes_of(mine_NK)}, [&] { mine_NK.add_(arrived_NK_); });
    }
    leaving_NK_ = mine_NK;
    hop_.start(group_, leaving_NK_, arrived_NK_, kGradients);
  }
  // This rank's own, from all others; after size - 1 calls of pass_on.
  const at::Tensor& home() {
    hop_.wait();
    leaving_NK_ = at::Tensor();
    return arrived_NK_;
  }

 private:
  Executor& run_;
  ContextGroup group_;
  at::Tensor arrived_NK_, leaving_NK_;
  Hop hop_;
};

}  // namespace

void Hop::start(const ContextGroup& group, const at::Tensor& out, const at::Tensor& in, int tag) {
  comm::Communicator& peers = group.peers();
  const int64_t size = group.size(), next = (group.rank() + 1) % size,
                before = (group.rank() + size - 1) % size;
  // Neighbours of unlike parity meet; where the first and the last are both even, the chain between them
  // still ends at an odd one.
  if (group.rank() % 2 == 0) sent_ = peers.send(out, next, tag);
  received_ = peers.receive(in, before, tag);
  if (group.rank() % 2 == 1) sent_ = peers.send(out, next, tag);
}

void Hop::wait() {
  received_.wait();
  sent_.wait();
}

KeyValueRing::KeyValueRing(Executor& run, const ContextGroup& group, const at::Tensor& qkv_NE,
                           const HeadShape& heads)
    : group_(group), hops_left_(group.size() - 1) {
  const int64_t width = 2 * heads.kv_size();
  here_NK_ = run.empty({qkv_NE.size(0), width}, Category::communication);
  there_NK_ = run.empty({qkv_NE.size(0), width}, Category::communication);
  run.run("pack", {0, 2 * bytes_of(here_NK_)},
          [&] { here_NK_.copy_(qkv_NE.narrow(1, heads.q_size(), width)); });
  start();
}

void KeyValueRing::start() {
  if (hops_left_-- > 0) hop_.start(group_, here_NK_, there_NK_, kKeyValues);
}

const at::Tensor& KeyValueRing::advance() {
  MUSTER_CHECK(hops_left_ >= 0, "the ring of {} went round already", group_.size());
  hop_.wait();
  std::swap(here_NK_, there_NK_);
  start();
  return here_NK_;
}

AttentionOutput ring_attention(Executor& run, const ContextGroup& group, const at::Tensor& qkv_NE,
                               const Positions& positions, const HeadShape& heads) {
  const auto blocks_of = [&](int64_t peer) { return positions.blocks[static_cast<size_t>(peer)]; };
  KeyValueRing ring(run, group, qkv_NE, heads);
  const AttentionOutput result = attention(run, qkv_NE, positions.length, heads, blocks_of(group.rank()));
  for (int64_t hop = 1; hop < group.size(); ++hop)
    attention_to(run, result, qkv_NE, ring.advance(), positions.length, heads, blocks_of(ring.peer(hop)));
  return result;
}

void ring_attention_backward(Executor& run, const ContextGroup& group, KeyValueRing& ring, at::Tensor qkv_NE,
                             const AttentionOutput& saved, const at::Tensor& dout_NQ,
                             const Positions& positions, const HeadShape& heads) {
  const auto blocks_of = [&](int64_t peer) { return positions.blocks[static_cast<size_t>(peer)]; };
  const int64_t shape[] = {qkv_NE.size(0), 2 * heads.kv_size()};
  const at::Tensor dq_NQ = zeros(run, dout_NQ.sizes(), Category::temporary);
  GradientRing gradients(run, group, shape);
  for (int64_t hop = 1; hop < group.size(); ++hop) {
    const at::Tensor& kv_NK = ring.advance();
    const at::Tensor mine_NK = zeros(run, shape, Category::communication);
    attention_to_backward(run, dq_NQ, mine_NK, qkv_NE, kv_NK, saved, dout_NQ, positions.length, heads,
                          blocks_of(ring.peer(hop)));
    gradients.pass_on(mine_NK);
  }
  // The rank's own scores come last, while the last gradients are on their way home.
  attention_backward(run, qkv_NE, saved, dout_NQ, positions.length, heads, blocks_of(group.rank()));
  const at::Tensor& home_NK = gradients.home();
  run.run("add", {0, 3 * bytes_of(dq_NQ) + 3 * bytes_of(home_NK)}, [&] {
    qkv_NE.narrow(1, 0, heads.q_size()).add_(dq_NQ);
    qkv_NE.narrow(1, heads.q_size(), shape[1]).add_(home_NK);
  });
}

}  // namespace muster::nn
