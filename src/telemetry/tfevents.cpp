#include "telemetry/tfevents.h"

#include <fmt/format.h>

#include <bit>

#include "telemetry/crc32c.h"

namespace muster::telemetry {
namespace {

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t at = 0; at < sizeof(T); ++at) bytes += static_cast<char>(value >> (8 * at) & 0xFF);
  return bytes;
}

uint32_t masked_crc(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

// Wire types of protocol buffers: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string field(int number, int wire_type, const std::string& payload) {
  return varint(static_cast<uint64_t>(number << 3 | wire_type)) + payload;
}
std::string bytes_field(int number, std::string_view bytes) {
  return field(number, 2, varint(bytes.size()) + std::string(bytes));
}
std::string double_field(int number, double value) {
  return field(number, 1, little_endian(std::bit_cast<uint64_t>(value)));
}
std::string float_field(int number, float value) {
  return field(number, 5, little_endian(std::bit_cast<uint32_t>(value)));
}

}  // namespace

std::string tfrecord(std::string_view data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + little_endian(masked_crc(length)) + std::string(data) + little_endian(masked_crc(data));
}

std::string version_record(double wall_seconds) {
  return tfrecord(double_field(1, wall_seconds) + bytes_field(3, "brain.Event:2"));
}

std::string scalar_record(double wall_seconds, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary += bytes_field(1, bytes_field(1, scalar.tag) + float_field(2, scalar.value));
  return tfrecord(double_field(1, wall_seconds) + field(2, 0, varint(static_cast<uint64_t>(step))) +
                  bytes_field(5, summary));
}

std::string event_file_name(double wall_seconds, const std::string& host, int64_t pid) {
  return fmt::format("events.out.tfevents.{:010.0f}.{}.{}", wall_seconds, host, pid);
}

}  // namespace muster::telemetry
