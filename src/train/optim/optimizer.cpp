#include "train/optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "device/storage.h"
#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"
#include "train/optim/orthogonalize.h"

namespace muster::train {
namespace {

// Of groups: matrices and other parameters, and under Muon the blocks' matrices.
enum : size_t { kDecays, kOthers, kLinear };

// An orthogonal matrix has elements of about 1 / sqrt(longer side); AdamW's updates are of 0.2 to 0.4, so
// that its learning rate and weight decay carry over.
constexpr double kAdamWsSize = 0.2;

nn::Cost cost(const std::vector<at::Tensor>& values, int64_t streams) {
  nn::Cost sum;
  for (const at::Tensor& value : values) sum.bytes += streams * static_cast<int64_t>(value.nbytes());
  return sum;
}

bool is_of_one_wide_format(const at::Tensor& value, const at::Tensor& gradient, const at::Tensor& state) {
  return value.scalar_type() != at::kBFloat16 && value.scalar_type() == gradient.scalar_type() &&
         value.scalar_type() == state.scalar_type();
}

// The gradient itself where it is as wide as what it changes.
at::Tensor in_wider_format(const at::Tensor& gradient, const at::Tensor& value) {
  return gradient.to(at::promote_types(gradient.scalar_type(), value.scalar_type()));
}

// body(T{}) with T = float or BFloat16.
template <class Body>
void with_float_or_less(const at::Tensor& tensor, Body&& body) {
  if (tensor.scalar_type() == at::kBFloat16) return body(c10::BFloat16{});
  MUSTER_CHECK(tensor.scalar_type() == at::kFloat, "no AdamW of {}", c10::toString(tensor.scalar_type()));
  body(float{});
}

void update_mixed(const at::Tensor& value, const at::Tensor& gradient, const at::Tensor& first,
                  const at::Tensor& second, const nn::kernels::AdamW& rule) {
  const auto update = [&]<class T, class G, class S>(T, G, S) {
    nn::kernels::adamw(nn::data<T>(value), nn::data<G>(gradient), nn::data<S>(first), nn::data<S>(second),
                       value.numel(), rule);
  };
  if (value.scalar_type() == at::kDouble) return update(double{}, double{}, c10::BFloat16{});
  with_float_or_less(value, [&](auto t) {
    with_float_or_less(gradient,
                       [&](auto g) { with_float_or_less(first, [&](auto s) { update(t, g, s); }); });
  });
}

// Brings elements of one state, from `first` on, into a tensor or out of one.
std::function<void(const at::Tensor&)> in_file(void (StateFile::*way)(size_t, int64_t, int64_t,
                                                                      const at::Tensor&),
                                               StateFile& file, size_t tensor, int64_t state, int64_t first) {
  return [=, &file](const at::Tensor& local) { (file.*way)(tensor, state, first, local.view(-1)); };
}

}  // namespace

Optimizer::Optimizer(const spec::OptimizerConfig& config, const nn::ParameterStore& parameters,
                     nn::Executor& run, StatePlace state, std::optional<WholeMatrices> matrices)
    : config_(config), format_(state.format), matrices_(std::move(matrices)) {
  const Rule rule = config.name == "sgd" ? Rule::sgd : Rule::adamw;
  if (state.file) file_ = std::make_unique<StateFile>(*state.file, state.format);
  groups_.resize(2);
  groups_[kDecays] = {rule, config.weight_decay};
  groups_[kOthers] = {rule, config.weight_decay_on == "all" ? config.weight_decay : 0};
  if (config.name == "muon") groups_.push_back({Rule::muon, config.weight_decay});
  for (const nn::Segment& segment : parameters.segments()) {
    Group& group = groups_[group_of(segment.is_matrix, segment.is_linear)];
    group.values.push_back(segment.master);
    group.gradients.push_back(segment.gradient);
    if (state_count(group.rule) > 0) group.first.push_back(make_state(run, segment.master, state));
    if (state_count(group.rule) > 1) group.second.push_back(make_state(run, segment.master, state));
  }
  if (!file_) return;
  for (Group& group : groups_)
    for (const at::Tensor& value : group.values)
      group.in_file.push_back(file_->add(value.numel(), state_count(group.rule)));
  file_->open(run);
}

at::Tensor Optimizer::make_state(nn::Executor& run, const at::Tensor& value, const StatePlace& place) const {
  const at::Tensor state = run.empty(value.sizes(), place.home, place.format);
  if (file_)
    device::drop(state);
  else
    run.run("zero", {0, static_cast<int64_t>(state.nbytes())}, [&] { state.zero_(); });
  return state;
}

size_t Optimizer::group_of(bool is_matrix, bool is_linear) const {
  if (is_linear && groups_.size() > kLinear) return kLinear;
  return is_matrix ? kDecays : kOthers;
}

int64_t Optimizer::state_count(Rule rule) const {
  if (rule == Rule::adamw) return 2;
  return rule == Rule::muon || config_.momentum > 0 ? 1 : 0;
}

std::vector<Optimizer::State> Optimizer::states_of(const spec::ParameterRow& row,
                                                   const at::Tensor& value) const {
  const Group& group = groups_[group_of(row.is_matrix, row.is_linear())];
  const auto view = [&](const char* name, const std::vector<at::Tensor>& states, int64_t number) -> State {
    for (size_t at = 0; at < group.values.size(); ++at) {
      const at::Tensor& run = group.values[at];
      const int64_t first = value.storage_offset() - run.storage_offset();
      if (!run.is_alias_of(value) || first < 0 || first + value.numel() > run.numel()) continue;
      State state{name, states[at].narrow(0, first, value.numel()).view(value.sizes())};
      if (!file_) return state;
      state.read = in_file(&StateFile::read, *file_, group.in_file[at], number, first);
      state.write = in_file(&StateFile::write, *file_, group.in_file[at], number, first);
      return state;
    }
    MUSTER_CHECK(value.numel() == 0, "the optimizer does not update {}", row.name);
    return {name, value.to(format_)};
  };
  std::vector<State> states;
  if (state_count(group.rule) > 0) states.push_back(view("first", group.first, 0));
  if (state_count(group.rule) > 1) states.push_back(view("second", group.second, 1));
  return states;
}

void Optimizer::step(nn::Executor& run, double learning_rate, double divisor) {
  ++updates_;
  for (Group& group : groups_) {
    // A rank may own no piece of a matrix and still have a whole one to make orthogonal.
    if (group.rule == Rule::muon)
      muon(run, group, learning_rate, divisor);
    else
      for_each_part(run, group, [&](Group& part) { update(run, part, learning_rate, divisor); });
  }
}

void Optimizer::update(nn::Executor& run, Group& part, double learning_rate, double divisor) {
  if (part.rule == Rule::sgd)
    sgd(run, part, learning_rate, divisor);
  else if (is_of_one_wide_format(part.values[0], part.gradients[0], part.first[0]))
    adamw(run, part, learning_rate, divisor);
  else
    adamw_of_mixed_formats(run, part, learning_rate, divisor);
}

// A group whose states are in memory is one part.
template <class Update>
void Optimizer::for_each_part(nn::Executor& run, Group& group, Update&& update) {
  if (group.values.empty()) return;
  if (!file_ || state_count(group.rule) == 0) return update(group);
  for (size_t at = 0; at < group.values.size(); ++at)
    for (size_t number : file_->parts_of(group.in_file[at])) {
      const StateFile::Part& place = file_->part(number);
      const auto piece = [&](const at::Tensor& whole) {
        return whole.narrow(0, place.first, place.elements);
      };
      const std::vector<at::Tensor> states = file_->take(run, number);
      Group part{group.rule,
                 group.weight_decay,
                 {piece(group.values[at])},
                 {piece(group.gradients[at])},
                 {states[0]}};
      if (states.size() > 1) part.second.push_back(states[1]);
      update(part);
      file_->put(run);
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

void Optimizer::adamw_of_mixed_formats(nn::Executor& run, Group& group, double learning_rate,
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
  nn::Cost bytes;
  for (const auto& [tensors, streams] : {std::pair(&group.values, 2), std::pair(&group.gradients, 1),
                                         std::pair(&group.first, 2), std::pair(&group.second, 2)})
    bytes.bytes += cost(*tensors, streams).bytes;
  run.run("adamw", bytes, [&] {
    for (size_t at = 0; at < group.values.size(); ++at)
      update_mixed(group.values[at], group.gradients[at], group.first[at], group.second[at], rule);
  });
}

// Weight decay as a term of the gradient, momentum without dampening: torch.optim.SGD's rule.
void Optimizer::sgd(nn::Executor& run, Group& group, double learning_rate, double divisor) {
  run.run("sgd", cost(group.values, group.first.empty() ? 3 : 5), [&] {
    for (size_t at = 0; at < group.values.size(); ++at) {
      at::Tensor& value = group.values[at];
      at::Tensor step = in_wider_format(group.gradients[at], value).div_(divisor);
      if (group.weight_decay != 0) step.add_(value, group.weight_decay);
      if (!group.first.empty()) step = group.first[at].mul_(config_.momentum).add_(step);
      value.add_(step, -learning_rate);
    }
  });
}

// Liu et al. 2025, "Muon is scalable for LLM training", equations 1, 2 and 4, and Nesterov's step of Jordan
// et al. 2024. Decay as AdamW's.
void Optimizer::muon(nn::Executor& run, Group& group, double learning_rate, double divisor) {
  for_each_part(run, group, [&](Group& part) {
    run.run("momentum", cost(part.values, 7), [&] {
      for (size_t at = 0; at < part.values.size(); ++at) {
        at::Tensor &gradient = part.gradients[at].div_(divisor), &momentum = part.first[at];
        momentum.mul_(config_.momentum).add_(gradient);
        config_.nesterov ? gradient.add_(momentum, config_.momentum) : gradient.copy_(momentum);
      }
    });
  });
  matrices_->apply(run, [&](const at::Tensor& matrix) {
    orthogonalize(run, matrix, config_.newton_schulz_steps);
    const double most = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
    run.run("scale", {0, nn::bytes_of(matrix, 2)},
            [&] { at::Tensor(matrix).mul_(kAdamWsSize * std::sqrt(most)); });
  });
  run.run("muon", cost(group.values, 4), [&] {
    for (size_t at = 0; at < group.values.size(); ++at)
      group.values[at].mul_(1 - learning_rate * group.weight_decay).add_(group.gradients[at], -learning_rate);
  });
}

}  // namespace muster::train
