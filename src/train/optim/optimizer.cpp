#include "train/optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>

#include <cmath>

#include "base/error.h"
#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::train {
namespace {

at::Tensor zeros_like(nn::Executor& run, const at::Tensor& value, at::ScalarType format) {
  const at::Tensor state = run.empty(value.sizes(), nn::Category::optimizer, format);
  run.run("zero", {0, static_cast<int64_t>(state.nbytes())}, [&] { state.zero_(); });
  return state;
}

nn::Cost cost(const std::vector<at::Tensor>& values, int64_t streams) {
  nn::Cost sum;
  for (const at::Tensor& value : values) sum.bytes += streams * static_cast<int64_t>(value.nbytes());
  return sum;
}

}  // namespace

Optimizer::Optimizer(const spec::OptimizerConfig& config, const nn::ParameterStore& parameters,
                     nn::Executor& run, at::ScalarType state)
    : config_(config) {
  const bool decay_all = config.weight_decay_on == "all";
  groups_.resize(2);
  groups_[0].weight_decay = config.weight_decay;
  for (const nn::Segment& segment : parameters.segments()) {
    Group& group = groups_[decay_all || segment.is_matrix ? 0 : 1];
    group.values.push_back(segment.value);
    group.gradients.push_back(segment.gradient);
    if (config.name == "adamw") {
      group.first.push_back(zeros_like(run, segment.value, state));
      group.second.push_back(zeros_like(run, segment.value, state));
    } else if (config.momentum > 0) {
      group.first.push_back(zeros_like(run, segment.value, state));
    }
  }
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::states_of(const at::Tensor& value) const {
  if (value.numel() == 0) return states_of_nothing(value);
  for (const Group& group : groups_)
    for (size_t at = 0; at < group.values.size(); ++at) {
      const at::Tensor& run = group.values[at];
      const int64_t first = value.storage_offset() - run.storage_offset();
      if (!run.is_alias_of(value) || first < 0 || first + value.numel() > run.numel()) continue;
      const auto view = [&](const at::Tensor& state) {
        return state.narrow(0, first, value.numel()).view(value.sizes());
      };
      std::vector<std::pair<std::string, at::Tensor>> states;
      if (!group.first.empty()) states.emplace_back("first", view(group.first[at]));
      if (!group.second.empty()) states.emplace_back("second", view(group.second[at]));
      return states;
    }
  throw Bug("a parameter that the optimizer does not update");
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::states_of_nothing(const at::Tensor& none) const {
  if (config_.name == "adamw") return {{"first", none}, {"second", none}};
  if (config_.momentum > 0) return {{"first", none}};
  return {};
}

void Optimizer::step(nn::Executor& run, double learning_rate, double divisor) {
  ++updates_;
  for (Group& group : groups_) {
    if (group.values.empty()) continue;
    if (config_.name == "sgd")
      sgd(run, group, learning_rate, divisor);
    else if (group.first[0].scalar_type() == group.values[0].scalar_type())
      adamw(run, group, learning_rate, divisor);
    else
      adamw_of_rounded_moments(run, group, learning_rate, divisor);
  }
}

void Optimizer::adamw(nn::Executor& run, Group& group, double learning_rate, double divisor) {
  run.run("adamw", cost(group.values, 8), [&] {
    std::optional<at::Tensor> scale;
    if (group.values[0].scalar_type() == at::kFloat) {
      scale = at::full({}, divisor, group.values[0].options());
    } else {  // the kernel's own divisor is fp32
      for (at::Tensor& gradient : group.gradients) gradient.div_(divisor);
    }
    const at::Tensor update =
        at::full({}, static_cast<double>(updates_), group.values[0].options().dtype(at::kFloat));
    const std::vector<at::Tensor> updates(group.values.size(), update);
    at::_fused_adamw_(group.values, group.gradients, group.first, group.second, {}, updates, learning_rate,
                      config_.betas[0], config_.betas[1], group.weight_decay, config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, scale);
  });
}

void Optimizer::adamw_of_rounded_moments(nn::Executor& run, Group& group, double learning_rate,
                                         double divisor) {
  const auto correction = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(updates_)); };
  const nn::kernels::AdamW rule{learning_rate,
                                config_.betas[0],
                                config_.betas[1],
                                config_.eps,
                                group.weight_decay,
                                divisor,
                                correction(config_.betas[0]),
                                correction(config_.betas[1])};
  nn::Cost bytes = cost(group.values, 3);
  bytes.bytes += cost(group.first, 2).bytes + cost(group.second, 2).bytes;
  run.run("adamw", bytes, [&] {
    for (size_t at = 0; at < group.values.size(); ++at)
      nn::with_type(group.values[at], [&](auto zero) {
        using T = decltype(zero);
        nn::kernels::adamw(nn::data<T>(group.values[at]), nn::data<T>(group.gradients[at]),
                           nn::data<uint16_t>(group.first[at]), nn::data<uint16_t>(group.second[at]),
                           group.values[at].numel(), rule);
      });
  });
}

// Weight decay as a term of the gradient, momentum without dampening: torch.optim.SGD's rule.
void Optimizer::sgd(nn::Executor& run, Group& group, double learning_rate, double divisor) {
  run.run("sgd", cost(group.values, group.first.empty() ? 3 : 5), [&] {
    for (size_t at = 0; at < group.values.size(); ++at) {
      at::Tensor& value = group.values[at];
      at::Tensor step = group.gradients[at].div_(divisor);
      if (group.weight_decay != 0) step.add_(value, group.weight_decay);
      if (!group.first.empty()) step = group.first[at].mul_(config_.momentum).add_(step);
      value.add_(step, -learning_rate);
    }
  });
}

}  // namespace muster::train
