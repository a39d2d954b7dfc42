// A small model with everything that it stands on, for tests.
#pragma once
#include "nn/transformer.h"
#include "spec/model/parameter_table.h"

namespace muster::nn {

inline spec::Mesh one_rank() {
  return spec::Mesh({1, 1, 1, 1, 1},
                    {spec::Axis::tensor, spec::Axis::context, spec::Axis::data, spec::Axis::pipeline});
}

// Two layers, sizes that are all different.
inline spec::ModelSpec small_model(spec::Family family) {
  spec::ModelSpec model;
  model.family = family;
  model.vocab_size = 37;
  model.hidden_size = 24;
  model.num_hidden_layers = 2;
  model.num_attention_heads = family == spec::Family::llama ? 4 : 3;
  model.num_key_value_heads = family == spec::Family::llama ? 2 : 0;
  model.intermediate_size = 28;
  model.max_position_embeddings = 16;
  spec::complete(model);
  return model;
}

struct Rig {
  Rig(const spec::ModelSpec& spec, Transformer::Options options, at::Device device = at::kCPU,
      at::ScalarType dtype = at::kDouble, int64_t bucket_bytes = 20000, Formats formats = {})
      : model(spec),
        table(model),
        mesh(one_rank()),
        run(device, dtype, clock),
        parameters(table, mesh, run, bucket_bytes, {}, formats),
        transformer(model, {}, {}, parameters, run, options) {}

  spec::ModelSpec model;
  spec::ParameterTable table;
  spec::Mesh mesh;
  Clock clock;
  Executor run;
  ParameterStore parameters;
  Transformer transformer;
};

}  // namespace muster::nn
