#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>

#include "checkpoint/strict_sax.h"

namespace muster::checkpoint {
namespace {

// Takes the events of a header level by level. Nothing but the grammar's three levels is taken, so that text
// nested a million deep is refused at its fourth bracket.
class HeaderReader : public StrictSax {
 public:
  using StrictSax::StrictSax;
  SafetensorsHeader header;

  bool start_object(size_t) override {
    if (level_ == Level::outside) return to(Level::names);
    if (level_ != Level::names) return refuse("an object has no meaning here");
    return to(in_metadata_ ? Level::metadata : Level::tensor);
  }
  bool end_object() override {
    if (level_ == Level::tensor) check_complete();
    return to(level_ == Level::names ? Level::outside : Level::names);
  }
  bool start_array(size_t) override {
    if (level_ != Level::tensor || (field_ != "shape" && field_ != "data_offsets"))
      return refuse("a list has no meaning here");
    numbers_.clear();
    return to(Level::numbers);
  }
  bool end_array() override {
    field_ == "shape" ? take_shape() : take_offsets();
    return to(Level::tensor);
  }
  bool key(string_t& name) override {
    if (level_ == Level::names) return start_entry(name);
    if (level_ == Level::metadata) return take_metadata_key(name);
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      return refuse("\"" + name + "\" is none of dtype, shape, data_offsets");
    if (std::ranges::count(seen_, name)) return refuse("\"" + name + "\" is there twice");
    seen_.push_back(name);
    field_ = name;
    return true;
  }
  bool string(string_t& text) override {
    if (level_ == Level::metadata) return take_metadata(text);
    if (level_ != Level::tensor || field_ != "dtype") return refuse("a string has no meaning here");
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype) return refuse("dtype \"" + text + "\" is none of " + dtype_names());
    header.tensors.back().dtype = *dtype;
    return true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (level_ != Level::numbers) return refuse("a number has no meaning here");
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return refuse(fmt::format("{} does not fit 63 bits", number));
    if (numbers_.size() == kMostRank) return refuse(fmt::format("more than {} dims", kMostRank));
    numbers_.push_back(static_cast<int64_t>(number));
    return true;
  }

 protected:
  std::string place() const override {
    if (in_metadata_) return "__metadata__";
    return header.tensors.empty() ? "header" : fmt::format("tensor \"{}\"", header.tensors.back().name);
  }

 private:
  enum class Level { outside, names, tensor, metadata, numbers };

  bool to(Level level) {
    level_ = level;
    return true;
  }
  bool start_entry(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (in_metadata_) return !std::exchange(has_metadata_, true) || refuse("is there twice");
    if (header.tensors.size() == kMostTensors) refuse(fmt::format("more than {} tensors", kMostTensors));
    check_name(name);
    header.tensors.emplace_back().name = name;
    seen_.clear();
    return true;
  }
  // The parser has checked that it is UTF-8.
  void check_name(const std::string& name) {
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    const std::string where = fmt::format("tensor {}", header.tensors.size());
    if (name.empty() || name.size() > kMostNameBytes)
      throw_data(fmt::format("{}: a name of {} bytes, not of 1 to {}", where, name.size(), kMostNameBytes));
    if (std::ranges::any_of(name, is_control)) throw_data(where + ": a control byte in its name");
  }
  bool take_metadata_key(const std::string& name) {
    field_ = name;
    count_metadata(name);
    return header.metadata.emplace(name, "").second || refuse("key \"" + name + "\" is there twice");
  }
  bool take_metadata(const std::string& text) {
    count_metadata(text);
    header.metadata[field_] = text;
    return true;
  }
  void count_metadata(const std::string& text) {
    metadata_bytes_ += text.size();
    if (metadata_bytes_ > kMostMetadataBytes) refuse(fmt::format("more than {} bytes", kMostMetadataBytes));
  }
  void take_shape() { header.tensors.back().shape = numbers_; }
  void take_offsets() {
    if (numbers_.size() != 2) refuse(fmt::format("data_offsets has {} numbers, not 2", numbers_.size()));
    header.tensors.back().begin = numbers_[0];
    header.tensors.back().end = numbers_[1];
  }
  void check_complete() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!std::ranges::count(seen_, field)) refuse(std::string(field) + " is missing");
  }

  Level level_ = Level::outside;
  bool in_metadata_ = false, has_metadata_ = false;
  size_t metadata_bytes_ = 0;
  std::string field_;
  std::vector<std::string> seen_;
  std::vector<int64_t> numbers_;
};

[[noreturn]] void refuse(const std::string& file, const TensorEntry& tensor, const std::string& rule) {
  throw WorldError(WorldError::Kind::data, fmt::format("{}: tensor \"{}\": {}", file, tensor.name, rule));
}

void check_names_differ(const std::vector<TensorEntry>& tensors, const std::string& file) {
  std::vector<const TensorEntry*> by_name;
  for (const TensorEntry& tensor : tensors) by_name.push_back(&tensor);
  std::ranges::sort(by_name, {}, &TensorEntry::name);
  const auto twice = std::ranges::adjacent_find(by_name, std::equal_to<>{}, &TensorEntry::name);
  if (twice != by_name.end()) refuse(file, **twice, "is there twice");
}

void check_bytes(const TensorEntry& tensor, int64_t data_bytes, const std::string& file) {
  if (tensor.begin > tensor.end || tensor.end > data_bytes)
    refuse(file, tensor,
           fmt::format("bytes {} to {} lie outside the file's {} bytes of data", tensor.begin, tensor.end,
                       data_bytes));
  const int64_t needed = checked_bytes(tensor, file);
  if (needed != tensor.bytes())
    refuse(
        file, tensor,
        fmt::format("its shape and dtype need {} bytes, its data_offsets hold {}", needed, tensor.bytes()));
}

// Tensors sorted by their data: each starts where the one before ends, and the last ends the file.
void check_cover(const std::vector<TensorEntry>& tensors, int64_t data_bytes, const std::string& file) {
  int64_t at = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != at)
      refuse(file, tensor,
             fmt::format("starts at byte {} of the data, where byte {} is next: tensors {}", tensor.begin, at,
                         tensor.begin < at ? "overlap" : "leave a gap"));
    at = tensor.end;
  }
  if (at != data_bytes)
    throw WorldError(WorldError::Kind::data,
                     fmt::format("{}: tensors end at byte {} of {} bytes of data", file, at, data_bytes));
}

std::string_view without_padding(std::string_view text, const std::string& file) {
  if (text.empty() || text.front() != '{')
    throw WorldError(WorldError::Kind::data, file + ": byte 8: a header must start with '{'");
  const size_t last = text.find_last_not_of(' ');
  if (text[last] != '}')
    throw WorldError(
        WorldError::Kind::data,
        fmt::format("{}: byte {}: a header must end with '}}' and spaces alone", file, 8 + last));
  return text.substr(0, last + 1);
}

}  // namespace

int64_t checked_bytes(const TensorEntry& tensor, const std::string& file) {
  int64_t bytes = bytes_of(tensor.dtype);
  for (int64_t size : tensor.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) refuse(file, tensor, "its size overflows 63 bits");
  return bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           const std::string& file) {
  HeaderReader reader(file);
  reader.parse(without_padding(text, file));
  std::vector<TensorEntry>& tensors = reader.header.tensors;
  check_names_differ(tensors, file);
  for (const TensorEntry& tensor : tensors) check_bytes(tensor, data_bytes, file);
  std::ranges::stable_sort(tensors, {},
                           [](const TensorEntry& tensor) { return std::pair(tensor.begin, tensor.end); });
  check_cover(tensors, data_bytes, file);
  return std::move(reader.header);
}

}  // namespace muster::checkpoint
