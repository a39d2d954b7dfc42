#include "checkpoint/weight_index.h"

#include <algorithm>

#include "base/json.h"
#include "checkpoint/strict_sax.h"

namespace muster::checkpoint {
namespace {

// Takes weight_map, and passes over whatever stands under other keys.
class IndexReader : public StrictSax {
 public:
  using StrictSax::StrictSax;
  WeightIndex index;
  bool has_map = false;

  bool null() override { return in_map() ? refuse("null is no file name") : true; }
  bool boolean(bool) override { return in_map() ? refuse("a truth value is no file name") : true; }
  bool number_integer(number_integer_t) override { return number(); }
  bool number_unsigned(number_unsigned_t) override { return number(); }
  bool number_float(number_float_t, const string_t&) override { return number(); }
  bool start_array(size_t) override { return in_map() ? refuse("a list is no file name") : enter(); }
  bool end_array() override { return leave(); }
  bool start_object(size_t) override {
    if (depth_ == 2 && in_map_) return refuse("an object is no file name");
    return enter();
  }
  bool end_object() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) in_map_ = name == "weight_map";
    if (depth_ == 1 && in_map_ && std::exchange(has_map, true)) return refuse("weight_map is there twice");
    if (depth_ == 2 && in_map_) index.files_by_tensor.emplace_back(name, "");
    return true;
  }
  bool string(string_t& text) override {
    if (!in_map()) return true;
    if (depth_ != 2) return refuse("weight_map must be an object");
    if (!is_plain_name(text)) return refuse("\"" + text + "\" is no plain name ending in .safetensors");
    index.files_by_tensor.back().second = text;
    return true;
  }

 protected:
  std::string place() const override {
    return index.files_by_tensor.empty() ? "weight_map"
                                         : "weight_map: \"" + index.files_by_tensor.back().first + "\"";
  }

 private:
  static constexpr int kMostDepth = 8;

  bool in_map() const { return in_map_ && depth_ >= 1; }
  bool number() { return in_map() ? refuse("a number is no file name") : true; }
  bool enter() {
    if (++depth_ > kMostDepth) refuse(fmt::format("nested deeper than {}", kMostDepth));
    return true;
  }
  bool leave() {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  static bool is_plain_name(const std::string& name) {
    const auto is_odd = [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/' || c == '\\'; };
    return name.ends_with(".safetensors") && !name.starts_with('.') && name.size() <= 255 &&
           std::ranges::none_of(name, is_odd);
  }

  int depth_ = 0;
  bool in_map_ = false;
};

}  // namespace

WeightIndex parse_weight_index(std::string_view text, const std::string& file) {
  const auto refuse = [&](const std::string& what) {
    throw WorldError(WorldError::Kind::data, file + ": " + what);
  };
  IndexReader reader(file);
  reader.parse(text);
  auto& entries = reader.index.files_by_tensor;
  if (!reader.has_map || entries.empty()) refuse("weight_map is missing or empty");
  std::ranges::sort(entries);
  const auto twice = std::ranges::adjacent_find(entries, {}, [](const auto& entry) { return entry.first; });
  if (twice != entries.end()) refuse("weight_map: \"" + twice->first + "\" is there twice");
  return std::move(reader.index);
}

std::string weight_index_text(const WeightIndex& index, int64_t total_bytes) {
  nlohmann::json json = {{"metadata", {{"total_size", total_bytes}}}};
  for (const auto& [tensor, file] : index.files_by_tensor) json["weight_map"][tensor] = file;
  return json.dump(2) + "\n";
}

}  // namespace muster::checkpoint
