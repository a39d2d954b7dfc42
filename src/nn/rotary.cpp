#include "nn/rotary.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace muster::nn {
namespace {

// Llama 3.1's rule: long wavelengths are stretched by `factor`, short ones kept, those between blended
// linearly.
double llama3_frequency(double frequency, const spec::RopeScaling& scaling) {
  const double context = static_cast<double>(scaling.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  const double blend =
      (context / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - blend) * frequency / scaling.factor + blend * frequency;
}

double frequency_of_pair(const spec::ModelSpec& model, int64_t pair) {
  const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(model.head_dim);
  const double frequency = std::pow(model.rope_theta, -exponent);
  if (model.rope_scaling.type == "none") return frequency;
  if (model.rope_scaling.type == "linear") return frequency / model.rope_scaling.factor;
  MUSTER_CHECK(model.rope_scaling.type == "llama3", "rope scaling {}", model.rope_scaling.type);
  return llama3_frequency(frequency, model.rope_scaling);
}

}  // namespace

RotaryTable make_rotary_table(Executor& run, const spec::ModelSpec& model, int64_t length) {
  if (model.family != spec::Family::llama) return {};
  const int64_t half = model.head_dim / 2;
  RotaryTable table{run.empty({length, half}, Category::other, run.statistics_dtype()),
                    run.empty({length, half}, Category::other, run.statistics_dtype())};
  run.run("rotary_table", {}, [&] {
    const at::Tensor angles = at::empty({length, half}, at::kDouble);
    auto* angle = angles.mutable_data_ptr<double>();
    for (int64_t position = 0; position < length; ++position)
      for (int64_t pair = 0; pair < half; ++pair)
        *angle++ = static_cast<double>(position) * frequency_of_pair(model, pair);
    table.cos_LD.copy_(angles.cos());
    table.sin_LD.copy_(angles.sin());
  });
  return table;
}

}  // namespace muster::nn
