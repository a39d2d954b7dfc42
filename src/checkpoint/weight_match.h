// Which tensor of the weights on disk is which parameter.
#pragma once
#include "checkpoint/tensor_set.h"
#include "spec/model/parameter_table.h"

namespace muster::checkpoint {

// One parameter, or several that the files keep as one tensor, by the name they have there.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<ExpectedTensor> expected_tensors(const spec::ParameterTable& table);

// The tensors of `expected`, in its order. A name may lack the prefix of the model inside its head
// ("transformer.", "model."). Buffers that are no parameters (gpt2's causal mask, old rotary tables) are
// passed over, and so is a head that is tied and yet stored, if its shape is that of the embedding;
// `tied_head` gives it. Reads headers alone. Throws one UserError with every tensor that is missing,
// unexpected, misshapen or of no floating-point type.
struct WeightMatch {
  std::vector<const StoredTensor*> found;
  const StoredTensor* tied_head = nullptr;  // null: none
  const StoredTensor* embedding = nullptr;
};
WeightMatch match_weights(const TensorSet& weights, const std::vector<ExpectedTensor>& expected);

}  // namespace muster::checkpoint
