#include "train/optim/update.h"

#include <cmath>

#include "nn/ops/norm_of_gradient.h"

namespace muster::train {
namespace {

// What torch.nn.utils.clip_grad_norm_ adds below the line.
constexpr double kClipEps = 1e-6;

double clip_coefficient(double norm, double most) {
  return most > 0 ? std::min(1.0, most / (norm + kClipEps)) : 1.0;
}

}  // namespace

UpdateResult ordered_update(nn::Executor& run, const nn::TensorGroup& group,
                            const nn::ParameterStore& parameters, Totals& totals, Optimizer& optimizer,
                            double learning_rate, double gradient_clip) {
  UpdateResult result;

  // The sums over the global batch: gradients were reduced before this, the losses' message is waited for
  // here.
  const Totals::Values sums = totals.wait(run);

  // Unscale: losses and gradients are sums until one global count divides them, once. No token, no update.
  result.tokens = sums.tokens;
  if (sums.tokens == 0) {
    result.skipped = true;
    return result;
  }
  const auto count = static_cast<double>(sums.tokens);
  result.loss = sums.loss_sum / count;

  // Global norm, in fp64, each logical element once. One element that is not finite makes it so, on every
  // rank alike, since all ranks hold the same sum: that is the finite check.
  result.grad_norm = std::sqrt(nn::sum_of_squares(run, group, parameters)) / count;
  if (!std::isfinite(result.grad_norm)) {
    result.skipped = true;
    return result;
  }

  // Clip and unscale are one divisor, applied as the update reads each gradient.
  const double clip = clip_coefficient(result.grad_norm, gradient_clip);
  optimizer.step(run, learning_rate, count / clip);

  // What layers read is the rounding of what the update wrote.
  parameters.round_masters(run);
  return result;
}

Totals::Totals(nn::Executor& run, comm::Communicator& data)
    : data_(&data), sums_(run.empty({2}, nn::Category::temporary, at::kDouble)) {
  run.run("zero", {}, [&] { sums_.zero_(); });
}

void Totals::start(nn::Executor& run) {
  run.run("count", {}, [&] { sums_.narrow(0, 1, 1).fill_(static_cast<double>(tokens_)); });
  pending_ = data_->all_reduce(sums_);
}

Totals::Values Totals::wait(nn::Executor& run) {
  pending_.wait();
  Values values{1, 1};  // on meta there is nothing to read
  run.run("read", {}, [&] {
    const at::Tensor host = sums_.cpu();
    values = {host.data_ptr<double>()[0], std::llround(host.data_ptr<double>()[1])};
  });
  return values;
}

}  // namespace muster::train
