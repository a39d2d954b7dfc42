#include "train/state.h"

#include <torch/version.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/version.h"
#include "data/fingerprint.h"
#include "data/order/cursor.h"
#include "spec/config/fields.h"
#include "spec/config/value.h"
#include "spec/mesh/local_shape.h"
#include "train/optim/learning_rate.h"

namespace muster::train {
namespace {

// Gives each piece to the rank with the fewest bytes so far, among those that hold it: the ranks that see
// other tokens, or of a sharded state the ones with the same shard; of neighbours on the tensor axis the
// first.
class Writers {
 public:
  explicit Writers(const Rank& rank)
      : mesh_(rank.mesh()),
        rank_(rank.number()),
        span_(rank.parameters().sharding().peers ? spec::Span::replicate : spec::Span::tokens) {}

  int64_t next(const spec::ParameterRow& row, int64_t bytes) {
    const std::vector<int64_t> holders = mesh_.group(first_neighbour(row), span_);
    const int64_t writer = *std::ranges::min_element(holders, {}, [&](int64_t rank) { return bytes_[rank]; });
    bytes_[writer] += bytes;
    return writer;
  }

 private:
  int64_t first_neighbour(const spec::ParameterRow& row) const {
    std::array<int64_t, spec::kAxisCount> at{};
    for (spec::Axis axis : mesh_.order()) at[static_cast<size_t>(axis)] = mesh_.coordinate(rank_, axis);
    int64_t& tensor = at[static_cast<size_t>(spec::Axis::tensor)];
    const int64_t copies = spec::copies(row, mesh_, spec::Axis::tensor);
    tensor = tensor / copies * copies;
    return mesh_.rank_at(at);
  }

  const spec::Mesh& mesh_;
  int64_t rank_;
  spec::Span span_;
  std::map<int64_t, int64_t> bytes_;
};

// Keys that change no bit of what is trained.
const std::set<std::string> kFree = {"training.log_every",
                                     "training.evaluate_every",
                                     "training.evaluate_batches",
                                     "training.threads",
                                     "training.collective_timeout_seconds",
                                     "training.host_transport",
                                     "training.stop_after_skipped",
                                     "training.steps",  // but see rate_problem
                                     "data.validation_path",
                                     "layout.offload",
                                     "layout.offload_path",
                                     "hardware.name",
                                     "hardware.memory_bytes",
                                     "model.weights",
                                     "checkpoint.every",
                                     "checkpoint.every_minutes",
                                     "checkpoint.adaptive",
                                     "checkpoint.hours_between_interruptions",
                                     "checkpoint.grace_seconds",
                                     "checkpoint.keep",
                                     "checkpoint.async",
                                     "checkpoint.contract"};

// Keys that decide who computes what: under them the same sums are made in another order.
bool is_of_layout(const std::string& key) {
  return key.starts_with("layout.") || key == "training.micro_batch_size" || key == "training.device" ||
         key == "training.bucket_bytes" || key == "training.loss_chunk_tokens";
}

}  // namespace

checkpoint::State state_of(Rank& rank) {
  checkpoint::State state;
  Writers writers(rank);
  for (const spec::ParameterRow& row : rank.table().rows()) {
    const spec::Piece piece = rank.owned_piece(row);
    const auto add = [&](const std::string& kind, const at::Tensor& padded) -> checkpoint::StateTensor& {
      const at::Tensor local = padded.narrow(0, 0, piece.elements());
      const int64_t writer = writers.next(row, static_cast<int64_t>(local.nbytes()));
      return state.tensors.emplace_back(kind + "/" + row.name, piece, local, writer);
    };
    // Values are a rounding of the masters, which are all that must be remembered.
    const at::Tensor value = rank.parameters().master_piece(row);
    add("parameters", value);
    for (const Optimizer::State& part : rank.optimizer().states_of(row, value)) {
      checkpoint::StateTensor& tensor = add("optimizer." + part.name, part.local);
      tensor.read = part.read;
      tensor.write = part.write;
    }
  }
  Optimizer& optimizer = rank.optimizer();
  state.counters.push_back({"optimizer.updates", [&optimizer] { return optimizer.updates(); },
                            [&optimizer](int64_t updates) { optimizer.set_updates(updates); }});
  return state;
}

std::map<std::string, std::string> replayed_job(const spec::Job& job) {
  spec::Job copy = job;
  std::map<std::string, std::string> values;
  for (const spec::Field& field : spec::fields())
    if (field.in && !kFree.contains(field.name())) values[field.name()] = spec::to_toml(field, copy);
  return values;
}

checkpoint::Expected expected_of(const spec::Job& job, int64_t world_size) {
  checkpoint::Expected expected{
      .job = replayed_job(job), .layout_keys = {}, .world = world_size, .contract = job.checkpoint.contract};
  for (const auto& [key, value] : expected.job)
    if (is_of_layout(key)) expected.layout_keys.insert(key);
  return expected;
}

std::vector<checkpoint::ManifestData> data_of(const spec::Job& job) {
  std::vector<checkpoint::ManifestData> data;
  for (const data::Fingerprint& file : data::fingerprints(job))
    data.push_back({file.field, file.path, file.bytes, file.hash});
  return data;
}

checkpoint::Manifest facts_of(const spec::Job& job, int64_t world_size, int64_t step) {
  checkpoint::Manifest facts;
  facts.name.step = step;
  facts.contract = job.checkpoint.contract;
  facts.layout = spec::describe(job.layout);
  facts.world = world_size;
  facts.job = replayed_job(job);
  facts.code = {{"muster", kVersion}, {"torch", TORCH_VERSION}};
  facts.next_sample = data::Cursor::before_step(step + 1, job.training.global_batch_size).next_sample;
  facts.learning_rate = learning_rate(job.optimizer, step, job.training.steps);
  return facts;
}

std::optional<Problem> rate_problem(const checkpoint::Manifest& manifest, const spec::Job& job) {
  const int64_t step = manifest.name.step, steps = job.training.steps;
  if (step > steps)
    return Problem{
        "training.steps", std::to_string(steps),
        fmt::format("is less than the {} updates that {} has behind it", step, to_string(manifest.name)),
        "ask for more"};
  const double rate = learning_rate(job.optimizer, step, steps);
  if (rate == manifest.learning_rate) return std::nullopt;
  return Problem{
      "training.steps", std::to_string(steps),
      fmt::format("makes another run of it: update {} was made with rate {:.6g}, and with that many "
                  "steps optimizer.schedule = {} gives it {:.6g}",
                  step, manifest.learning_rate, job.optimizer.schedule, rate),
      "keep the steps, or start a new run from the checkpoint with model.weights; schedule = "
      "\"constant\" or \"wsd\" leaves the end open"};
}

void check_cursor(const checkpoint::Manifest& manifest, const spec::Job& job) {
  if (const auto problem = rate_problem(manifest, job))
    throw WorldError(WorldError::Kind::mismatch, fmt::format("{}: {} = {} {}", to_string(manifest.name),
                                                             problem->field, problem->value, problem->rule));
  const data::Cursor expected =
      data::Cursor::before_step(manifest.name.step + 1, job.training.global_batch_size);
  if (manifest.next_sample != expected.next_sample)
    throw WorldError(WorldError::Kind::mismatch,
                     fmt::format("{}: its next sample is {}, and after its step it must be {}",
                                 to_string(manifest.name), manifest.next_sample, expected.next_sample));
}

}  // namespace muster::train
