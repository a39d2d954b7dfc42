// The building of a rank: from the spec to tensors, top to bottom.
#include "base/units.h"
#include "checkpoint/hugging_face.h"
#include "nn/initialize.h"
#include "spec/mesh/local_shape.h"
#include "train/rank.h"

namespace muster::train {
namespace {

// Buckets large enough that a message's latency is small beside its bytes, small enough that the last one,
// which nothing hides, is short.
constexpr int64_t kBucketBytes = 25 * MiB;

at::ScalarType dtype_of(const std::string& name) {
  return name == "float64" ? at::kDouble : at::kFloat;
}

nn::Transformer::Options model_options(const spec::Job& job) {
  // The single stage has one micro-batch in flight.
  const int64_t rows = job.training.micro_batch_size * job.data.sequence_length;
  return {job.training.dropout,
          job.training.seed,
          job.training.loss_chunk_tokens,
          job.data.sequence_length,
          spec::parse_recompute(job.layout.recompute),
          rows};
}

}  // namespace

Rank::Rank(const spec::Job& job, const spec::Mesh& mesh, int64_t rank, comm::Groups groups, at::Device device,
           const Clock& clock)
    : job_(job),
      mesh_(mesh),
      number_(rank),
      groups_(std::move(groups)),
      run_(device, dtype_of(job.numerics.compute), clock),
      table_(job.model) {
  // Values and gradients in flat buffers, by the parameter table; a bucket of gradients is one message.
  const int64_t bucket_bytes = job.training.bucket_bytes > 0 ? job.training.bucket_bytes : kBucketBytes;
  parameters_ = std::make_unique<nn::ParameterStore>(table_, mesh_, run_, bucket_bytes);
  // The same first bits in every layout.
  load_or_initialize();
  // Layers over views of those buffers.
  model_ =
      std::make_unique<nn::Transformer>(job.model, tensor_group(), *parameters_, run_, model_options(job));
  // State beside each parameter, and the way its gradient is summed.
  optimizer_ = std::make_unique<Optimizer>(job.optimizer, *parameters_, run_);
  reducer_ = std::make_unique<Reducer>(*parameters_, groups_.on(spec::Span::tokens));
  partial_sums_ =
      std::make_unique<PartialSums>(*parameters_, job.layout, mesh_, groups_.on(spec::Axis::tensor));
  // What a step does, in order.
  actions_ = schedule::single_stage(spec::micro_batches(job));
  schedule::validate(actions_, spec::micro_batches(job));
}

void Rank::load_or_initialize() {
  if (run_.is_meta()) return;
  for (const spec::ParameterRow& row : table_.rows())
    if (spec::padding_elements(row, mesh_, number_) > 0) parameters_->value(row).zero_();
  if (job_.weights.empty()) {
    for (const spec::ParameterRow& row : table_.rows())
      nn::initialize(run_, parameters_->value(row), row, spec::local_part(row, mesh_, number_),
                     job_.training.seed);
    return;
  }
  checkpoint::load_weights(job_.weights, table_, [&](const spec::ParameterRow& row) {
    const spec::Piece piece = spec::local_piece(row, mesh_, number_);
    return checkpoint::Destination(parameters_->value(row).view({-1}).narrow(0, 0, piece.elements()), piece);
  });
}

}  // namespace muster::train
