// Quantities as text. Bytes are exact integers; GiB is 2^30, GB is 10^9, and the text says which.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

constexpr int64_t KiB = int64_t{1} << 10;
constexpr int64_t MiB = int64_t{1} << 20;
constexpr int64_t GiB = int64_t{1} << 30;

// 1536 -> "1.50 KiB"; below 1 KiB exact: "96 B".
std::string format_bytes(int64_t bytes);
// "10 GiB", "25MB", "4096" -> bytes. Throws UserError naming `field`.
int64_t parse_bytes(std::string_view text, const std::string& field);
// 56132096 -> "56.1 M"; 70553706496 -> "70.6 B" (billions, as the field counts parameters and tokens).
std::string format_count(double count);
// 1234567 -> "1,234,567".
std::string format_exact(int64_t value);
// 93.2 -> "1m33s"; 0.0042 -> "4.2 ms".
std::string format_seconds(double seconds);
// 1.97e12 -> "1.97 TFLOP".
std::string format_flops(double flops);

}  // namespace muster
