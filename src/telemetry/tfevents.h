// TensorBoard's event files, as much of them as scalars need.
//   file:    records; the first is an Event with file_version "brain.Event:2"
//   record:  length (uint64 LE), masked CRC32C of those 8 bytes, data, masked CRC32C of data (TFRecord)
//   data:    Event { 1: wall_time double, 2: step int64, 3: file_version string, 5: Summary }
//   Summary: { 1: repeated Value { 1: tag string, 2: simple_value float } }
// Source: tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::telemetry {

struct Scalar {
  std::string tag;
  float value = 0;
};

std::string tfrecord(std::string_view data);
// The record that opens a file.
std::string version_record(double wall_seconds);
// One step's scalars as one record.
std::string scalar_record(double wall_seconds, int64_t step, const std::vector<Scalar>& scalars);
// "events.out.tfevents.<seconds>.<host>.<pid>": TensorBoard orders the files of a run by name.
std::string event_file_name(double wall_seconds, const std::string& host, int64_t pid);

}  // namespace muster::telemetry
