// CRC-32C (Castagnoli): the check of TFRecord files. RFC 3720, appendix B.4.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace muster::telemetry {

constexpr std::array<uint32_t, 256> crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0u);
    table[byte] = value;
  }
  return table;
}

constexpr uint32_t crc32c(std::string_view bytes) {
  constexpr std::array<uint32_t, 256> table = crc32c_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

}  // namespace muster::telemetry
