#include "checkpoint/set/checkpoint_tensors.h"

#include <map>

#include "base/error.h"

namespace muster::checkpoint {
namespace {

constexpr std::string_view kParameters = "parameters/", kMaster = "master_parameters/";
constexpr size_t kHeldChunks = 8;

Opened open_or_refuse(const fs::path& folder) {
  try {
    return open_checkpoint(folder);
  } catch (const WorldError& error) {
    throw UserError({"checkpoint", folder.string(), error.what(),
                     "name another one; muster inspect RUN lists those that are whole"});
  }
}

}  // namespace

std::optional<fs::path> checkpoint_folder(const fs::path& path) {
  const fs::path folder = path.has_filename() ? path : path.parent_path();
  if (!fs::is_directory(folder)) return std::nullopt;
  if (!parse_set_name(folder.filename().string()) && !fs::exists(folder / kManifest)) return std::nullopt;
  return folder;
}

spec::Job job_of(const Manifest& manifest, const std::string& source) {
  return spec::recorded_job(manifest.job, source);
}

CheckpointTensors::CheckpointTensors(const fs::path& folder, Which which)
    : folder_(folder), opened_(open_or_refuse(folder)), reader_(folder, opened_.manifest, kHeldChunks) {
  if (which == Which::all) {
    for (const ManifestTensor& tensor : manifest().tensors) add_source(tensor.name, tensor);
    return;
  }
  for (std::string_view kind : {kMaster, kParameters})
    for (const ManifestTensor& tensor : manifest().tensors)
      if (tensor.name.starts_with(kind)) add_source(tensor.name.substr(kind.size()), tensor);
}

// The first of a name stays.
void CheckpointTensors::add_source(const std::string& name, const ManifestTensor& tensor) {
  if (add({name, tensor.dtype, tensor.shape, folder_.string()})) sources_.push_back(&tensor);
}

std::string CheckpointTensors::id() const {
  return fmt::format("{} (manifest {})", folder_.string(), hash_text(opened_.id));
}

void CheckpointTensors::read(const std::vector<Wanted>& wanted) const {
  std::vector<SetReader::Order> orders;
  for (const Wanted& one : wanted) orders.push_back({sources_[index_of(*one.tensor)], one.to});
  reader_.read(orders);
}

}  // namespace muster::checkpoint
