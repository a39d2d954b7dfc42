#include "checkpoint/weight_files.h"

#include <set>

#include "base/error.h"
#include "checkpoint/tensor_io.h"
#include "checkpoint/weight_index.h"

namespace muster::checkpoint {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool is_inside(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

// What the world says of a file is what is wrong with the request that named it.
template <class Body>
void gather_world(Problems& problems, const fs::path& path, Body&& body) {
  const char* remedy = "copy or download it again";
  try {
    body();
  } catch (const WorldError& error) {
    problems.add("weights", path.string(), error.what(), remedy);
  } catch (const fs::filesystem_error& error) {
    problems.add("weights", path.string(), error.code().message(), remedy);
  }
}

}  // namespace

// A Hugging Face cache keeps MODEL/snapshots/REVISION/name as a link to MODEL/blobs/HASH.
void check_own_file(const fs::path& file, const fs::path& folder) {
  const fs::path real_folder = fs::canonical(folder), real = fs::canonical(file);
  // A pipe would block whoever opens it.
  if (!fs::is_regular_file(real))
    throw WorldError(WorldError::Kind::data, file.string() + ": is not a regular file");
  const fs::path snapshots = real_folder.parent_path();
  const bool in_cache =
      snapshots.filename() == "snapshots" && is_inside(real, snapshots.parent_path() / "blobs");
  if (!is_inside(real, real_folder) && !in_cache)
    throw WorldError(WorldError::Kind::data,
                     fmt::format("{}: leads out of its folder, to {}", file.string(), real.string()));
}

WeightFiles::WeightFiles(const fs::path& path) : path_(path) {
  if (!fs::exists(path))
    throw UserError(
        {"weights", path.string(), "there is no such file or folder",
         "give a .safetensors file, a folder with model.safetensors or its index, or a checkpoint's"});
  if (fs::is_directory(path)) {
    open_folder();
  } else {
    Problems problems;
    gather_world(problems, path, [&] { files_.emplace_back(path); });
    problems.throw_if_any();
  }
  index_names();
}

void WeightFiles::index_names() {
  Problems problems;
  for (const SafetensorsFile& file : files_)
    for (const TensorEntry& entry : file.tensors()) {
      if (add({entry.name, entry.dtype, entry.shape, file.path().string()})) {
        places_.push_back({&file, &entry});
        continue;
      }
      const fs::path other = find(entry.name)->source;
      problems.add("weights", entry.name,
                   fmt::format("is in two files, {} and {}", other.filename().string(),
                               file.path().filename().string()),
                   "remove what an earlier export left");
    }
  problems.throw_if_any();
}

void WeightFiles::open_folder() {
  if (fs::exists(path_ / kIndex)) return open_shards(path_ / kIndex);
  const fs::path single = path_ / kSingle;
  if (!fs::exists(single))
    throw UserError({"weights", path_.string(),
                     fmt::format("the folder has neither {} nor {}", kSingle, kIndex),
                     "give the folder that holds one of them, or a checkpoint's"});
  Problems problems;
  gather_world(problems, single, [&] {
    check_own_file(single, path_);
    files_.emplace_back(single);
  });
  problems.throw_if_any();
}

void WeightFiles::open_shards(const fs::path& index_path) {
  Problems problems;
  WeightIndex index;
  gather_world(problems, index_path, [&] {
    check_own_file(index_path, path_);
    index = parse_weight_index(read_text(index_path, kMostIndexBytes), index_path.string());
  });
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [tensor, name] : index.files_by_tensor) {
    if (opened.contains(name)) continue;
    opened[name] = nullptr;
    gather_world(problems, path_ / name, [&] {
      check_own_file(path_ / name, path_);
      opened[name] = &files_.emplace_back(path_ / name);
    });
  }
  for (const auto& [tensor, name] : index.files_by_tensor)
    if (const SafetensorsFile* file = opened[name]; file && !file->find(tensor))
      problems.add("weights", tensor, fmt::format("the index places it in {}, which has it not", name),
                   "download the index and its shards from one release");
  problems.throw_if_any();
}

void WeightFiles::read(const std::vector<Wanted>& wanted) const {
  for (const Wanted& one : wanted) {
    const Place& place = places_[index_of(*one.tensor)];
    read_tensor(*place.file, *place.entry, one.to);
  }
}

}  // namespace muster::checkpoint
