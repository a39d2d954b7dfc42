#include "estimate/step_messages.h"

#include <algorithm>

#include "base/error.h"
#include "spec/config/recompute.h"
#include "spec/mesh/local_shape.h"
#include "spec/mesh/mesh.h"
#include "spec/model/gradient_placement.h"
#include "spec/model/parameter_table.h"

namespace muster::estimate {
namespace {

using spec::Axis;
using spec::Span;

int64_t elements_of(const spec::ParameterRow& row, const spec::Mesh& mesh) {
  int64_t product = 1;
  for (const int64_t size : spec::local_shape(row, mesh)) product *= size;
  return product;
}

// Layers that compute attention's core again, and those that start again from their input.
struct Again {
  int64_t cores = 0, layers = 0;
};

Again again_of(const spec::Recompute& recompute, int64_t layers) {
  switch (recompute.kind) {
    case spec::Recompute::Kind::selective:
      return {layers, 0};
    case spec::Recompute::Kind::full:
      return {layers, layers};
    case spec::Recompute::Kind::every: {
      const int64_t some = (layers + recompute.every - 1) / recompute.every;
      return {some, some};
    }
    default:
      return {};
  }
}

class Step {
 public:
  Step(const spec::Job& job, Again again)
      : job_(job),
        mesh_(spec::make_mesh(job.layout)),
        table_(job.model),
        again_(again),
        layers_(job.model.num_hidden_layers),
        element_(spec::bytes_of_format(job.numerics.compute)),
        value_(spec::bytes_of_format(job.numerics.parameters)),
        gradient_(spec::bytes_of_format(job.numerics.gradients)),
        times_(spec::micro_batches(job)),
        rows_(job.training.micro_batch_size * job.data.sequence_length / job.layout.context) {}

  std::vector<StepMessages> all() {
    add_tensor();
    add_context();
    add_data();
    return std::move(messages_);
  }

 private:
  void add(const std::string& axis, const char* op, int64_t bytes) {
    if (bytes == 0) return;
    const auto known = std::ranges::find_if(
        messages_, [&](const StepMessages& each) { return each.axis == axis && each.op == op; });
    known == messages_.end() ? messages_.push_back({axis, op, bytes}) : void(known->bytes += bytes);
  }

  // docs/parallelism.md. A layer from its input sums attention's output again; with shared rows it gathers
  // its two inputs as well.
  void add_tensor() {
    if (mesh_.size(Axis::tensor) == 1) return;
    const int64_t stream = times_ * rows_ * job_.model.hidden_size * element_;
    const bool shares = job_.layout.sequence_parallel;
    add("tensor", shares ? "reduce_scatter" : "all_reduce", (4 * layers_ + 2 + again_.layers) * stream);
    if (shares) add("tensor", "all_gather", (6 * layers_ + 2 + 2 * again_.layers) * stream);
    // The loss: a row's largest logit, then two fp64 sums; the norm once a step.
    add("tensor", "all_reduce", times_ * rows_ * (element_ + 16) + 8);
    add_partial_sums();
  }

  void add_partial_sums() {
    const int64_t owners = job_.layout.zero > 0 ? mesh_.size(Span::shard) : 1;
    int64_t whole = 0, shared = 0, sharers = 1;
    for (const spec::ParameterRow& row : table_.rows()) {
      if (!spec::is_partial_over_tensor(row, job_.layout)) continue;
      const int64_t copies = spec::copies(row, mesh_, Axis::tensor);
      (copies == mesh_.size(Axis::tensor) ? whole : shared) += elements_of(row, mesh_);
      if (copies != mesh_.size(Axis::tensor)) sharers = copies;
    }
    add("tensor", "all_reduce", whole * gradient_ / owners);
    const int64_t slice = (shared / owners + sharers - 1) / sharers;
    add("tensor", "all_to_all", 2 * sharers * slice * gradient_);
  }

  // docs/context.md
  void add_context() {
    const int64_t ranks = mesh_.size(Axis::context), tensor = mesh_.size(Axis::tensor);
    if (ranks == 1) return;
    const int64_t heads = job_.model.num_attention_heads / tensor, width = job_.model.head_dim;
    const int64_t keys = std::max<int64_t>(1, job_.model.num_key_value_heads / tensor);
    if (job_.layout.context_method == "ring") {
      const int64_t hops = (ranks - 1) * (3 * layers_ + again_.cores);
      const int64_t bytes = times_ * hops * rows_ * 2 * keys * width * element_;
      add("context", "send", bytes);
      add("context", "receive", bytes);
      return;
    }
    const int64_t row = heads / ranks + 2 * std::max<int64_t>(1, keys / ranks);
    const int64_t layer = (ranks * rows_ * row + rows_ * heads) * width * element_;
    add("context", "all_to_all", times_ * (2 * layers_ + again_.cores) * layer);
  }

  // docs/zero.md
  void add_data() {
    const std::string tokens = told(mesh_, Span::tokens), shard = told(mesh_, Span::shard);
    const int64_t model = unit_elements(0, layers_ + 1), zero = job_.layout.zero;
    if (mesh_.size(Span::tokens) > 1) add(tokens, "all_reduce", 16);
    if (zero == 0) {
      if (mesh_.size(Span::tokens) > 1) add(tokens, "all_reduce", model * gradient_);
      return;
    }
    const bool each = zero >= 2 && job_.layout.reduce_every == "micro_batch";
    add(shard, "all_gather", (zero == 3 ? gathered_elements() : model) * value_);
    add(shard, "reduce_scatter", (each ? times_ : 1) * model * gradient_);
    add(shard, "all_reduce", 16);
    if (mesh_.size(Span::replicate) > 1)
      add(told(mesh_, Span::replicate), "all_reduce", model * gradient_ / mesh_.size(Span::shard));
  }

  // Every unit forward and the blocks backward, but for those that are among the next 1 + A units when they
  // could go: the last A blocks, and from one micro-batch to the next the first A.
  int64_t gathered_elements() {
    const int64_t ahead = std::min(job_.layout.prefetch, layers_);
    const int64_t again = job_.layout.keep_after_forward ? 0 : unit_elements(1, layers_ - ahead);
    return times_ * (unit_elements(0, layers_ + 1) + again) - (times_ - 1) * unit_elements(1, ahead);
  }

  int64_t unit_elements(int64_t first, int64_t last) const {
    int64_t elements = 0;
    for (const spec::ParameterRow& row : table_.rows())
      if (row.unit >= first && row.unit <= last) elements += elements_of(row, mesh_);
    return elements;
  }

  const spec::Job& job_;
  spec::Mesh mesh_;
  spec::ParameterTable table_;
  Again again_;
  int64_t layers_;
  int64_t element_, value_, gradient_;  // bytes of one: of activations, parameters and gradients
  int64_t times_, rows_;
  std::vector<StepMessages> messages_;
};

}  // namespace

std::string told(const spec::Mesh& mesh, spec::Span span) {
  const std::vector<int64_t> ranks = mesh.group(0, span);
  for (const Axis axis : spec::kAxes)
    if (mesh.size(axis) > 1 && mesh.group(0, axis) == ranks) return to_string(axis);
  for (const Span earlier : spec::kSpans)
    if (mesh.group(0, earlier) == ranks) return mesh.name(earlier);
  throw Bug("a span is none of the spans");
}

std::optional<std::vector<StepMessages>> step_messages(const spec::Job& job) {
  const spec::Recompute recompute = spec::parse_recompute(job.layout.recompute);
  if (recompute.kind == spec::Recompute::Kind::budget) return std::nullopt;
  return Step(job, again_of(recompute, job.model.num_hidden_layers)).all();
}

}  // namespace muster::estimate
