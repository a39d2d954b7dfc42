#include "checkpoint/dtype.h"

#include "base/error.h"

namespace muster::checkpoint {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr Entry kEntries[] = {
    {DType::f64, "F64", 8},   {DType::f32, "F32", 4},         {DType::f16, "F16", 2},
    {DType::bf16, "BF16", 2}, {DType::f8_e4m3, "F8_E4M3", 1}, {DType::f8_e5m2, "F8_E5M2", 1},
    {DType::i64, "I64", 8},   {DType::i32, "I32", 4},         {DType::i16, "I16", 2},
    {DType::i8, "I8", 1},     {DType::u8, "U8", 1},           {DType::boolean, "BOOL", 1},
};

const Entry& entry_of(DType dtype) {
  for (const Entry& entry : kEntries)
    if (entry.dtype == dtype) return entry;
  throw Bug("a dtype outside its table");
}

}  // namespace

std::string_view to_string(DType dtype) {
  return entry_of(dtype).name;
}

int64_t bytes_of(DType dtype) {
  return entry_of(dtype).bytes;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const Entry& entry : kEntries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

}  // namespace muster::checkpoint
