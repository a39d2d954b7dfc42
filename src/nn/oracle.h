// The models of this room once more, for tests: whole-model formulas over [B, S, ...] tensors, differentiated
// by torch's autograd, sharing nothing with the layers but the parameters' names.
#pragma once
#include <ATen/ATen.h>

#include <map>
#include <string>

#include "spec/model/model.h"

namespace muster::nn {

using Named = std::map<std::string, at::Tensor>;  // parameters by their Hugging Face names

// The sum of the losses of the targets >= 0, differentiable. ids_BS and targets_BS are int64.
at::Tensor oracle_loss(const spec::ModelSpec& model, const Named& parameters, const at::Tensor& ids_BS,
                       const at::Tensor& targets_BS);
// Logits [B, S, V].
at::Tensor oracle_logits(const spec::ModelSpec& model, const Named& parameters, const at::Tensor& ids_BS);

}  // namespace muster::nn
