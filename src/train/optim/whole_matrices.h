// The blocks' matrices, whole, one rank each, for an update that needs all of a matrix at once. Their
// gradients lie in pieces: a part on each tensor rank, of which each rank that shares a copy of the state
// owns a flat range. In rounds of as many matrices as there are ranks, pieces go to the matrix's owner and
// back:
//   all-to-all among the ranks that share a copy: pieces -> parts;
//   all-to-all over the tensor axis: parts -> the whole;
//   and of ranks that hold the same pieces, each copy does its share of the round and broadcasts what became
//   of it.
// A group of one is left out. A rank has room for at most five of a round's matrices at a time: their pieces,
// sent and received, their parts, sent and received, and the whole.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "nn/parameters.h"

namespace muster::train {

class WholeMatrices {
 public:
  // `copies`: the ranks with the same pieces. All of them outlive this.
  WholeMatrices(const nn::ParameterStore& parameters, const spec::Mesh& mesh, comm::Communicator& copies,
                comm::Communicator& tensor);

  using Transform = std::function<void(const at::Tensor& matrix)>;
  // Gives each matrix's gradient to `transform`, of its global shape and contiguous, on the rank that owns
  // it; what it leaves there is put in place of the gradient on all ranks. Collective over all of them.
  void apply(nn::Executor& run, const Transform& transform) const;

 private:
  // What one copy does of a round: the i-th matrix is of rank i / T among those that share a copy, and i % T
  // on the tensor axis.
  using Hand = std::vector<const spec::ParameterRow*>;
  // The same elements in two places.
  using Pairs = std::vector<std::pair<at::Tensor, at::Tensor>>;

  int64_t sharers() const { return parameters_->sharding().size(); }
  int64_t hand_size() const { return sharers() * tensor_->size(); }
  Hand hand(int64_t number) const;
  Hand of_sharer(const Hand& hand, int64_t sharer) const;
  int64_t part_elements(const spec::ParameterRow& row) const;
  int64_t piece_elements(const Hand& rows, int64_t sharer) const;

  // Pieces of a hand, side by side, and the gradients that they are of.
  Pairs pieces_and_gradients(const at::Tensor& pieces, const Hand& hand) const;
  // Of one sharer's matrices: all pieces, by the rank that sent them, and the parts that they make up.
  Pairs pieces_and_parts(const at::Tensor& pieces, const at::Tensor& parts, const Hand& rows) const;
  // Of one matrix: all parts, by the rank that sent them, and where they lie in the whole.
  Pairs parts_and_whole(const at::Tensor& parts, const at::Tensor& whole,
                        const spec::ParameterRow& row) const;

  void transform_pieces(nn::Executor& run, const at::Tensor& pieces, const Hand& hand,
                        const Transform& transform) const;
  void transform_parts(nn::Executor& run, const at::Tensor& parts, const Hand& rows,
                       const Transform& transform) const;

  const nn::ParameterStore* parameters_;
  const spec::Mesh* mesh_;
  comm::Communicator* copies_;
  comm::Communicator* tensor_;
  Hand rows_;  // the largest first, so that a round's matrices take about as long
};

}  // namespace muster::train
