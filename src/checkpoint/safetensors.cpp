#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/json.h"

namespace muster::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr int64_t kLengthBytes = 8;

// A pipe or a device would block, or never end.
File open_regular(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw WorldError(WorldError::Kind::data, path.string() + ": is not a regular file");
  return File::open_read(path);
}

int64_t header_bytes(const File& file) {
  const std::string name = file.path().string();
  const int64_t size = file.size();
  if (size < kLengthBytes)
    throw WorldError(WorldError::Kind::data,
                     fmt::format("{}: {} bytes are too few for a safetensors file", name, size));
  uint64_t length = 0;
  file.read_at(&length, kLengthBytes, 0);
  const auto most = static_cast<uint64_t>(std::min(kMostHeaderBytes, size - kLengthBytes));
  if (length > most)
    throw WorldError(
        WorldError::Kind::data,
        fmt::format("{}: byte 0: a header of {} bytes where at most {} are possible", name, length, most));
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : file_(open_regular(path)) {
  std::string text(static_cast<size_t>(header_bytes(file_)), '\0');
  file_.read_at(text.data(), text.size(), kLengthBytes);
  data_start_ = kLengthBytes + static_cast<int64_t>(text.size());
  header_ = parse_safetensors_header(text, file_.size() - data_start_, path.string());
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_.emplace(header_.tensors[i].name, i);
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

void SafetensorsFile::read(const TensorEntry& tensor, int64_t first, int64_t bytes, void* out) const {
  MUSTER_CHECK(first >= 0 && bytes >= 0 && first <= tensor.bytes() - bytes,
               "bytes {} to {} of {}, which has {}", first, first + bytes, tensor.name, tensor.bytes());
  file_.read_at(out, static_cast<size_t>(bytes), data_start_ + tensor.begin + first);
}

std::vector<TensorEntry> lay_out(std::vector<TensorEntry> tensors, const std::string& file) {
  std::ranges::stable_sort(tensors, std::greater<>{}, [](const TensorEntry& t) { return bytes_of(t.dtype); });
  int64_t at = 0;
  for (TensorEntry& tensor : tensors) {
    tensor.begin = at;
    at += checked_bytes(tensor, file);
    tensor.end = at;
  }
  return tensors;
}

// The names of a header are the parser's to unescape, so they are written by a JSON library too.
std::string safetensors_head(const std::vector<TensorEntry>& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + Json(metadata).dump();
  for (const TensorEntry& tensor : tensors)
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", Json(tensor.name).dump(), to_string(tensor.dtype),
                        Json(tensor.shape).dump(), tensor.begin, tensor.end);
  text += "}";
  // Data starts on a multiple of the largest element.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, std::vector<TensorEntry> tensors,
                                     const Metadata& metadata)
    : tensors_(lay_out(std::move(tensors), path.string())), file_(File::create(path)) {
  if (!tensors_.empty()) data_bytes_ = tensors_.back().end;
  file_.write_all(safetensors_head(tensors_, metadata));
}

void SafetensorsWriter::write(const void* data, int64_t bytes) {
  written_ += bytes;
  MUSTER_CHECK(written_ <= data_bytes_, "{} bytes of data in a file of {}", written_, data_bytes_);
  file_.write_all(data, static_cast<size_t>(bytes));
}

void SafetensorsWriter::finish() {
  MUSTER_CHECK(written_ == data_bytes_, "{} bytes of data in a file of {}", written_, data_bytes_);
  file_.sync();
  file_.close();
}

}  // namespace muster::checkpoint
