// The element types of a safetensors file.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::checkpoint {

enum class DType { f64, f32, f16, bf16, f8_e4m3, f8_e5m2, i64, i32, i16, i8, u8, boolean };

// As the file spells it: "BF16".
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
int64_t bytes_of(DType dtype);
// "F64, F32, ...": every name, for messages.
std::string dtype_names();

}  // namespace muster::checkpoint
