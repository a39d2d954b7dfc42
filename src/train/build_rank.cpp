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

at::ScalarType format_of(const std::string& name) {
  if (name == "bfloat16") return at::kBFloat16;
  return name == "float64" ? at::kDouble : at::kFloat;
}

nn::Formats formats_of(const spec::NumericsConfig& numerics) {
  nn::Formats formats{.gradients = format_of(numerics.gradients)};
  if (numerics.master != "none") formats.master = format_of(numerics.master);
  return formats;
}

StatePlace state_place(const spec::Job& job, int64_t rank) {
  StatePlace place{format_of(job.numerics.optimizer)};
  if (job.layout.offload != "none") place.home = nn::Category::host_optimizer;
  if (job.layout.offload == "file") place.file = StateFile::Options{job.layout.offload_path, rank};
  return place;
}

// One unit a bucket where units come and go.
int64_t bucket_bytes_of(const spec::Job& job) {
  if (job.layout.zero == 3) return 1;
  return job.training.bucket_bytes > 0 ? job.training.bucket_bytes : kBucketBytes;
}

nn::Transformer::Options model_options(const spec::Job& job) {
  // The single stage has one micro-batch in flight.
  const int64_t rows = job.training.micro_batch_size * job.data.sequence_length / job.layout.context;
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
      run_(device, format_of(job.numerics.compute), clock),
      table_(job.model) {
  // Values and gradients in flat buffers, by the parameter table; a bucket of gradients is one message.
  parameters_ = std::make_unique<nn::ParameterStore>(table_, mesh_, run_, bucket_bytes_of(job), sharding(),
                                                     formats_of(job.numerics));
  // The same first bits in every layout.
  load_or_initialize();
  // Layers over views of those buffers.
  model_ = std::make_unique<nn::Transformer>(job.model, tensor_group(), context_group(), *parameters_, run_,
                                             model_options(job));
  // State beside each parameter, the way its gradient is summed, and the way its value comes to where it is
  // used.
  comm::Communicator& copies = groups_.on(job.layout.zero > 0 ? spec::Span::replicate : spec::Span::tokens);
  optimizer_ =
      std::make_unique<Optimizer>(job.optimizer, *parameters_, run_, state_place(job, number_),
                                  WholeMatrices(*parameters_, mesh_, copies, groups_.on(spec::Axis::tensor)));
  reducer_ = std::make_unique<Reducer>(*parameters_, copies, run_, job.layout.reduce_every == "micro_batch");
  values_ = std::make_unique<Values>(*parameters_, Ahead{job.layout.prefetch, job.layout.keep_after_forward});
  partial_sums_ =
      std::make_unique<PartialSums>(*parameters_, job.layout, mesh_, groups_.on(spec::Axis::tensor));
  // What a step does, in order.
  actions_ = schedule::single_stage(spec::micro_batches(job));
  schedule::validate(actions_, spec::micro_batches(job));
  uses_ = uses_of(actions_, table_.units());
}

nn::Sharding Rank::sharding() {
  const int64_t stage = job_.layout.zero;
  if (stage == 0) return {};
  return {&groups_.on(spec::Span::shard), stage >= 2, stage >= 3};
}

// What this rank owns and no more.
void Rank::load_or_initialize() {
  if (run_.is_meta()) return;
  for (const spec::ParameterRow& row : table_.rows())
    if (spec::padding_elements(row, mesh_, number_) > 0) parameters_->master_piece(row).zero_();
  job_.weights.empty() ? initialize() : load();
  parameters_->round_masters(run_);
}

void Rank::initialize() {
  for (const spec::ParameterRow& row : table_.rows())
    nn::initialize(run_, parameters_->master_piece(row), row, spec::local_part(row, mesh_, number_),
                   parameters_->owned(row), job_.training.seed);
}

// Of each parameter what this rank owns.
void Rank::load() {
  weights_id_ = checkpoint::load_weights(job_.weights, table_, [&](const spec::ParameterRow& row) {
    const spec::Piece piece = owned_piece(row);
    return checkpoint::Destination(parameters_->master_piece(row).narrow(0, 0, piece.elements()), piece);
  });
}

spec::Piece Rank::owned_piece(const spec::ParameterRow& row) const {
  const spec::Piece part = spec::local_piece(row, mesh_, number_);
  const nn::FlatRange own = parameters_->owned(row);
  const int64_t elements = part.elements();
  return part.narrow(std::min(own.first, elements), std::min(own.first + own.size, elements));
}

}  // namespace muster::train
