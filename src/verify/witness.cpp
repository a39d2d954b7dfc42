#include "verify/witness.h"

#include "base/hash.h"
#include "data/dataset.h"
#include "device/ledger.h"
#include "nn/initialize.h"
#include "spec/mesh/local_shape.h"
#include "spec/model/parameter_table.h"

namespace muster::verify {
namespace {

constexpr double kLearningRate = 0.1;

spec::Job with_plain_sgd(spec::Job job) {
  job.optimizer = {};
  job.optimizer.name = "sgd";
  job.optimizer.learning_rate = kLearningRate;
  job.optimizer.schedule = "constant";
  job.optimizer.weight_decay = 0;
  job.optimizer.gradient_clip = 0;
  return job;
}

comm::Groups connect(const spec::Job& job, const spec::Mesh& mesh, const comm::World& world, bool check) {
  const auto timeout =
      std::chrono::milliseconds(static_cast<int64_t>(job.training.collective_timeout_seconds * 1000));
  return comm::connect(mesh, world, job.training.device, timeout,
                       {timeout, check, job.training.host_transport == "memory"});
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void hash_states(Witness& witness) {
  for (size_t row = 0; row < witness.gradients.size(); ++row)
    witness.state_hashes.push_back(
        hash64(bytes_of(witness.parameters[row]), hash64(bytes_of(witness.gradients[row]), 0)));
}

// Biases start at zero and norms at one, where a bias that is added twice would not show: moves all of them
// by small numbers that are the same in every layout.
void move_constants(train::Rank& rank, uint64_t seed) {
  for (const spec::ParameterRow& row : rank.table().rows()) {
    if (row.initializer.kind != spec::Initializer::Kind::constant) continue;
    spec::ParameterRow noise = row;
    noise.initializer = {spec::Initializer::Kind::normal, 0.02};
    const at::Tensor own = rank.parameters().master_piece(row), move = at::empty_like(own);
    nn::initialize(rank.executor(), move, noise, spec::local_part(row, rank.mesh(), rank.number()),
                   rank.parameters().owned(row), seed);
    own.add_(move);
  }
  rank.parameters().round_masters(rank.executor());
}

// Evidence is kept in a format that adds nothing to it.
at::ScalarType evidence_format(const spec::Job& job) {
  return job.numerics.compute == "float64" ? at::kDouble : at::kFloat;
}

void take_update(Witness& witness, train::Rank& rank, const train::Feed& feed, at::ScalarType format,
                 const Meddle& meddle) {
  const auto whole = [&](const spec::ParameterRow& row, const at::Tensor& piece) {
    return rank.whole(row, piece).detach().cpu().to(format).clone();
  };
  const train::StepResult result = rank.run_step(feed, 1, [&](const char* phase, int64_t, int64_t) {
    if (meddle.at) meddle.at(rank, phase);
    if (std::string_view(phase) != "update") return;
    for (const spec::ParameterRow& row : rank.table().rows())
      witness.gradients.push_back(whole(row, rank.parameters().gradient_piece(row)));
  });
  for (at::Tensor& gradient : witness.gradients) gradient.div_(static_cast<double>(result.tokens));
  for (const spec::ParameterRow& row : rank.table().rows())
    witness.parameters.push_back(whole(row, rank.parameters().master_piece(row)));
  witness.loss = result.loss;
  witness.grad_norm = result.grad_norm;
  witness.tokens = result.tokens;
}

bool is_muons(const spec::ParameterRow& row, const spec::Job& job) {
  return job.optimizer.name == "muon" && row.is_linear();
}

// The whole matrices that Muon updates, by row.
std::vector<at::Tensor> muon_matrices(train::Rank& rank, const spec::Job& job) {
  const at::ScalarType format = evidence_format(job);
  std::vector<at::Tensor> matrices;
  for (const spec::ParameterRow& row : rank.table().rows()) {
    const bool is_there = is_muons(row, job);
    matrices.push_back(is_there ? rank.whole(row, rank.parameters().master_piece(row)).to(format).clone()
                                : at::Tensor());
  }
  return matrices;
}

void take_own_update(Witness& witness, train::Rank& rank, const spec::Job& job, const train::Feed& feed) {
  const std::vector<at::Tensor> before = muon_matrices(rank, job);
  rank.run_step(feed, 1);
  witness.changes = muon_matrices(rank, job);
  for (size_t row = 0; row < before.size(); ++row)
    if (before[row].defined()) witness.changes[row].sub_(before[row]);
}

fs::path json_file(const fs::path& folder, int64_t rank) {
  return folder / fmt::format("rank-{}.json", rank);
}
fs::path tensor_file(const fs::path& folder) {
  return folder / "rank-0.tensors";
}

class MeddledFeed final : public train::Feed {
 public:
  MeddledFeed(const train::Feed& feed, const Meddle& meddle) : Feed(feed), meddle_(meddle) {}
  train::Loaded load(nn::Executor& run, int64_t step, int64_t micro_batch) const override {
    train::Loaded loaded = Feed::load(run, step, micro_batch);
    if (meddle_.positions) meddle_.positions(loaded.batch.positions);
    return loaded;
  }

 private:
  const Meddle& meddle_;
};

comm::Groups take_update(Witness& witness, const spec::Job& job, const spec::Mesh& mesh, comm::Groups groups,
                         const data::Dataset& dataset, const Meddle& meddle) {
  const Clock clock;
  train::Rank rank(with_plain_sgd(job), mesh, witness.rank, std::move(groups), at::kCPU, clock);
  move_constants(rank, job.training.seed);
  const train::Feed feed(job, mesh, witness.rank, &dataset);
  take_update(witness, rank, MeddledFeed(feed, meddle), evidence_format(job), meddle);
  hash_states(witness);
  return std::move(rank.groups());
}

}  // namespace

Witness testify_update(const spec::Job& job, const comm::World& world, const Meddle& meddle) {
  const spec::Mesh mesh = spec::make_mesh(job.layout);
  Witness witness;
  witness.rank = world.rank;
  take_update(witness, job, mesh, connect(job, mesh, world, true), data::Dataset::open_training(job), meddle);
  return witness;
}

Witness testify(const spec::Job& job, const comm::World& world, bool check_collectives) {
  const Clock clock;
  const spec::Mesh mesh = spec::make_mesh(job.layout);
  const data::Dataset dataset = data::Dataset::open_training(job);
  const train::Feed feed(job, mesh, world.rank, &dataset);
  Witness witness;
  witness.rank = world.rank;
  comm::Groups groups =
      take_update(witness, job, mesh, connect(job, mesh, world, check_collectives), dataset, {});
  train::Rank rank(job, mesh, world.rank, std::move(groups), at::kCPU, clock);
  take_own_update(witness, rank, job, feed);
  // The evidence so far is not part of the run whose memory is measured.
  for (auto* tensors : {&witness.gradients, &witness.parameters, &witness.changes})
    for (const at::Tensor& tensor : *tensors)
      if (tensor.defined()) device::retag(tensor, telemetry::Category::scratch);
  {
    const train::Rank::Recording recording(rank, witness.record);
    rank.run_step(feed, 2);
  }
  // Plain SGD does not show the job's own optimizer: what two steps of it leave is the replicas' state too.
  for (size_t at = 0; at < witness.state_hashes.size(); ++at) {
    const spec::ParameterRow& row = rank.table().rows()[at];
    uint64_t& hash = witness.state_hashes[at];
    hash = hash64(bytes_of(rank.whole(row, rank.parameters().master_piece(row)).cpu()), hash);
  }
  return witness;
}

void write(const Witness& witness, const fs::path& folder) {
  Json json;
  json["loss"] = witness.loss;
  json["grad_norm"] = witness.grad_norm;
  json["tokens"] = witness.tokens;
  json["state_hashes"] = witness.state_hashes;
  json["record"] = telemetry::to_json(witness.record);
  if (witness.rank == 0) {
    File file = File::create(tensor_file(folder));
    for (const auto* tensors : {&witness.gradients, &witness.parameters, &witness.changes})
      for (const at::Tensor& tensor : *tensors)
        if (tensor.defined()) file.write_all(bytes_of(tensor));
    file.close();
  }
  write_text(json_file(folder, witness.rank), json.dump());
}

Witness read(const fs::path& folder, int64_t rank, const spec::Job& job) {
  const fs::path path = json_file(folder, rank);
  const Json json = parse_json(read_text(path, int64_t{1} << 30), path.string());
  Witness witness;
  witness.rank = rank;
  witness.loss = json["loss"];
  witness.grad_norm = json["grad_norm"];
  witness.tokens = json["tokens"];
  witness.state_hashes = json["state_hashes"].get<std::vector<uint64_t>>();
  witness.record = telemetry::step_record_from_json(json["record"], path.string());
  if (rank != 0) return witness;
  const File file = File::open_read(tensor_file(folder));
  int64_t offset = 0;
  const spec::ParameterTable table(job.model);
  const auto read_next = [&](const spec::ParameterRow& row) {
    const at::Tensor tensor = at::empty(row.shape, evidence_format(job));
    file.read_at(tensor.data_ptr(), tensor.nbytes(), offset);
    offset += static_cast<int64_t>(tensor.nbytes());
    return tensor;
  };
  for (auto* tensors : {&witness.gradients, &witness.parameters})
    for (const spec::ParameterRow& row : table.rows()) tensors->push_back(read_next(row));
  for (const spec::ParameterRow& row : table.rows())
    witness.changes.push_back(is_muons(row, job) ? read_next(row) : at::Tensor());
  return witness;
}

}  // namespace muster::verify
