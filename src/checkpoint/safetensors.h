// Safetensors files: read by slices, written as a stream. Nothing here knows torch.
#pragma once
#include "base/file.h"
#include "checkpoint/safetensors_header.h"

namespace muster::checkpoint {

// An open file whose header has been checked (safetensors_header.h). Throws WorldError(data) for a malformed
// file, WorldError(disk) where it cannot be read.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);

  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }  // in the order of their data
  const TensorEntry* find(const std::string& name) const;                      // null where there is none
  const Metadata& metadata() const { return header_.metadata; }
  const fs::path& path() const { return file_.path(); }

  // `bytes` of a tensor's data from its `first` byte.
  void read(const TensorEntry& tensor, int64_t first, int64_t bytes, void* out) const;

 private:
  File file_;
  int64_t data_start_ = 0;
  SafetensorsHeader header_;
  std::map<std::string_view, size_t> by_name_;
};

// Gives each tensor its place in the data: larger elements first, so that every tensor is aligned.
std::vector<TensorEntry> lay_out(std::vector<TensorEntry> tensors, const std::string& file);
// Length and header of a file with these tensors, padded so that its data is aligned.
std::string safetensors_head(const std::vector<TensorEntry>& tensors, const Metadata& metadata);

// Writes a file whose tensors are known before their data. `tensors` come with name, dtype and shape, and are
// laid out. Then write() each tensor's bytes in the order of tensors(), in as many pieces as you like, and
// finish().
class SafetensorsWriter {
 public:
  SafetensorsWriter(const fs::path& path, std::vector<TensorEntry> tensors, const Metadata& metadata);

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  void write(const void* data, int64_t bytes);
  // On the disk when it returns. A tensor short of bytes is a Bug.
  void finish();

 private:
  std::vector<TensorEntry> tensors_;
  File file_;
  int64_t written_ = 0, data_bytes_ = 0;
};

}  // namespace muster::checkpoint
