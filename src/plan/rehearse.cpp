#include "plan/rehearse.h"

#include "base/table.h"
#include "base/units.h"
#include "checkpoint/set/snapshot.h"
#include "spec/mesh/local_shape.h"
#include "train/rank.h"
#include "train/state.h"

namespace muster::plan {
namespace {

Json coordinates(const spec::Mesh& mesh, int64_t rank) {
  Json json = Json::object();
  for (spec::Axis axis : mesh.order()) json[spec::to_string(axis)] = mesh.coordinate(rank, axis);
  return json;
}

// ", data 3, tensor 1": the axes on which it does not stand first.
std::string place_of(const Json& coordinate) {
  std::string text;
  for (const auto& [axis, at] : coordinate.items())
    if (at != 0) text += fmt::format(", {} {}", axis, at.get<int64_t>());
  return text;
}

std::vector<Padding> padding_of(const spec::Job& job, const spec::Mesh& mesh, int64_t rank) {
  std::vector<Padding> padding;
  const spec::ParameterTable table(job.model);
  for (const spec::ParameterRow& row : table.rows())
    if (const int64_t elements = spec::padding_elements(row, mesh, rank); elements > 0)
      padding.push_back({row.name, elements});
  return padding;
}

std::vector<BucketPadding> padding_of(const nn::ParameterStore& parameters) {
  std::vector<BucketPadding> padding;
  for (const nn::Bucket& bucket : parameters.buckets())
    if (bucket.padding > 0) padding.push_back({bucket.first_unit, bucket.last_unit, bucket.padding});
  return padding;
}

std::string padding_text(const Rehearsal& rehearsal) {
  std::string text;
  for (const Padding& padding : rehearsal.padding)
    text += fmt::format("padding: {} elements of {}, beyond its end\n", format_exact(padding.elements),
                        padding.parameter);
  for (const BucketPadding& padding : rehearsal.bucket_padding)
    text += fmt::format("padding: {} elements of the bucket of units {} to {}, over all that share it\n",
                        format_exact(padding.elements), padding.first_unit, padding.last_unit);
  return text.empty() ? text : text + "\n";
}

// "llama, 8,030,261,248 parameters in bfloat16; data 8, tensor 8, ZeRO 1; 64 sequences of 8,192 tokens a
// step".
std::string describe(const spec::Job& job) {
  return fmt::format("{}, {} parameters in {}; {}; {} sequences of {} tokens a step",
                     spec::to_string(job.model.family),
                     format_exact(spec::ParameterTable(job.model).elements()), job.numerics.parameters,
                     spec::describe(job.layout), format_exact(job.training.global_batch_size),
                     format_exact(job.data.sequence_length));
}

// What takes bytes off the device, where the job does not do it yet.
std::string memory_remedy(const spec::Job& job, const telemetry::MemoryFigures& memory) {
  std::string remedy;
  if (memory.optimizer > 0)
    remedy = fmt::format("layout.offload = \"host\" takes {} bytes of optimizer state off it; ",
                         format_exact(memory.optimizer));
  if (job.layout.zero < 3) remedy += "a higher layout.zero shares states out; ";
  if (job.layout.recompute != "full") remedy += "layout.recompute keeps fewer activations; ";
  return remedy + "smaller micro-batches take less";
}

// Of one rank alone on a device.
bool fits(int64_t peak, const spec::Hardware& hardware) {
  return peak <= hardware.memory_bytes;
}

std::string fit_text(int64_t peak, const spec::Hardware& hardware) {
  const int64_t room = hardware.memory_bytes;
  if (room == 0)
    return fmt::format("whether it fits is not known: {} has no memory_bytes, name another hardware\n",
                       hardware.name);
  const double share = 100.0 * static_cast<double>(peak) / static_cast<double>(room);
  return fmt::format("{}: the peak is {:.1f} % of the {} of {}\n",
                     fits(peak, hardware) ? "fits" : "DOES NOT FIT", share, format_bytes(room),
                     hardware.name);
}

void add_row(Table& table, const char* what, int64_t bytes) {
  table.add({what, format_bytes(bytes), format_exact(bytes)});
}

}  // namespace

double model_flops_per_step(const spec::Job& job) {
  const auto tokens = static_cast<double>(job.training.global_batch_size * job.data.sequence_length);
  return 3 * spec::forward_flops_per_token(job.model, job.data.sequence_length).total() * tokens;
}

Rehearsal rehearse(const spec::Job& job, int64_t rank) {
  const spec::Mesh mesh = spec::make_mesh(job.layout);
  if (rank < 0 || rank >= mesh.world_size())
    throw UserError({"--rank", std::to_string(rank),
                     fmt::format("must be a rank of the world of {}", mesh.world_size()),
                     fmt::format("name one from 0 to {}", mesh.world_size() - 1)});
  device::install_ledgers();
  const Clock clock;
  train::Rank program(job, mesh, rank, comm::without_peers(mesh, rank, job.training.device), at::kMeta,
                      clock);
  const train::Feed feed(job, mesh, rank, nullptr);

  Rehearsal result{rank, mesh.world_size(), coordinates(mesh, rank), {}, {}, 0, 0, {}, {}, 0, 0};
  {
    const train::Rank::Recording recording(program, result.record);
    program.run_step(feed, 1);
  }
  result.padding = padding_of(job, mesh, rank);
  result.bucket_padding = padding_of(program.parameters());
  result.state_file_bytes = program.optimizer().file_bytes();
  if (job.checkpoint.is_on() && job.checkpoint.async)
    result.snapshot_bytes = checkpoint::snapshot_bytes(train::state_of(program), rank);
  result.memory = telemetry::memory_figures(result.record);
  result.hardware_flops = result.record.hardware_flops();
  result.model_flops = model_flops_per_step(job) / static_cast<double>(mesh.world_size());
  return result;
}

spec::Hardware hardware_of(const spec::Job& job) {
  spec::Hardware hardware = spec::load_hardware(job.hardware.name);
  if (job.hardware.memory_bytes > 0) hardware.memory_bytes = job.hardware.memory_bytes;
  return hardware;
}

void check_memory(const spec::Job& job, int64_t first, int64_t end) {
  const int64_t room = job.hardware.memory_bytes;
  for (int64_t rank = first; room > 0 && rank < end; ++rank) {
    const telemetry::MemoryFigures memory = rehearse(job, rank).memory;
    if (memory.peak_bytes > room)
      throw UserError({"hardware.memory_bytes", std::to_string(room),
                       fmt::format("is less than the {} bytes ({}) that rank {} takes of its device, at {}",
                                   format_exact(memory.peak_bytes), format_bytes(memory.peak_bytes), rank,
                                   memory.peak_at),
                       memory_remedy(job, memory)});
  }
}

void check_offload_path(const spec::Job& job, int64_t first, int64_t end) {
  if (job.layout.offload != "file") return;
  int64_t needed = 0;
  for (int64_t rank = first; rank < end; ++rank) needed += rehearse(job, rank).state_file_bytes;
  const std::string& path = job.layout.offload_path;
  const train::Room room = train::room_for_files(path);
  if (!room.problem.empty())
    throw UserError({"layout.offload_path", path, "must be a folder to write in: " + room.problem,
                     "make it, or name another"});
  if (room.free_bytes < needed)
    throw UserError(
        {"layout.offload_path", path,
         fmt::format(
             "has {} bytes free, and the optimizer's state of {} takes {}", format_exact(room.free_bytes),
             end - first == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, end - 1),
             format_exact(needed)),
         "make room or name another folder"});
}

Json to_json(const Rehearsal& rehearsal, const spec::Hardware& hardware) {
  const telemetry::MemoryFigures& memory = rehearsal.memory;
  Json json;
  json["rank"] = rehearsal.rank;
  json["world_size"] = rehearsal.world_size;
  json["coordinate"] = rehearsal.coordinate;
  json["persistent_bytes"] = {{"parameters", memory.parameters},
                              {"master_parameters", memory.master_parameters},
                              {"gradients", memory.gradients},
                              {"optimizer", memory.optimizer}};
  json["padding"] = Json::array();
  for (const Padding& padding : rehearsal.padding)
    json["padding"].push_back({{"parameter", padding.parameter}, {"elements", padding.elements}});
  json["bucket_padding"] = Json::array();
  for (const BucketPadding& padding : rehearsal.bucket_padding)
    json["bucket_padding"].push_back(
        {{"units", {padding.first_unit, padding.last_unit}}, {"elements", padding.elements}});
  json["gathered_bytes"] = memory.gathered_bytes;
  json["peak_bytes"] = memory.peak_bytes;
  json["peak_at"] = memory.peak_at;
  json["device"] = {{"name", hardware.name}, {"memory_bytes", nullptr}, {"fits", nullptr}};
  if (hardware.memory_bytes > 0) {
    json["device"]["memory_bytes"] = hardware.memory_bytes;
    json["device"]["fits"] = fits(memory.peak_bytes, hardware);
  }
  json["host"] = {{"optimizer_bytes", memory.host_optimizer},
                  {"optimizer_file_bytes", rehearsal.state_file_bytes},
                  {"snapshot_bytes", rehearsal.snapshot_bytes}};
  json["messages"] = Json::array();
  for (const telemetry::MessageTotal& total : rehearsal.record.message_totals())
    json["messages"].push_back(
        {{"axis", total.axis}, {"op", total.op}, {"count", total.count}, {"bytes", total.bytes}});
  json["flops"] = {{"model", rehearsal.model_flops}, {"hardware", rehearsal.hardware_flops}};
  return json;
}

std::string to_text(const Rehearsal& rehearsal, const spec::Job& job, const spec::Hardware& hardware) {
  const telemetry::MemoryFigures& memory = rehearsal.memory;
  Table bytes({"memory of this rank", "", "bytes"});
  add_row(bytes, "parameters", memory.parameters);
  if (memory.master_parameters > 0) add_row(bytes, "master parameters", memory.master_parameters);
  add_row(bytes, "gradients", memory.gradients);
  add_row(bytes, "optimizer", memory.optimizer);
  add_row(bytes, "persistent", memory.persistent());
  if (memory.gathered_bytes > 0) add_row(bytes, "gathered at a time", memory.gathered_bytes);
  add_row(bytes, "peak", memory.peak_bytes);
  if (memory.host_optimizer > 0) add_row(bytes, "host: optimizer state", memory.host_optimizer);
  if (rehearsal.state_file_bytes > 0) add_row(bytes, "file: optimizer state", rehearsal.state_file_bytes);
  if (rehearsal.snapshot_bytes > 0) add_row(bytes, "host: snapshot of a save", rehearsal.snapshot_bytes);

  Table messages({"axis", "op", "messages a step", "bytes", ""});
  for (const telemetry::MessageTotal& total : rehearsal.record.message_totals())
    messages.add({total.axis, total.op, format_exact(total.count), format_exact(total.bytes),
                  format_bytes(total.bytes)});

  std::string text = fmt::format("{}\nrank {} of {}{}\n\n{}\npeak at: {}\n{}\n", describe(job),
                                 rehearsal.rank, rehearsal.world_size, place_of(rehearsal.coordinate),
                                 bytes.text(), memory.peak_at, fit_text(memory.peak_bytes, hardware));
  text += padding_text(rehearsal);
  text += rehearsal.record.messages.empty() ? std::string("no messages: every axis has one rank\n")
                                            : messages.text();
  text += fmt::format(
      "\nFLOPs of one step on this rank: model {} (causal attention, no recomputation), hardware {}\n",
      format_flops(rehearsal.model_flops), format_flops(rehearsal.hardware_flops));
  return text;
}

}  // namespace muster::plan
