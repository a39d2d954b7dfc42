// One collective as a rank called it, and how it is told to a person.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <source_location>
#include <string>
#include <vector>

namespace muster::comm {

struct Group {
  std::string axis;            // "data", "shard+context": as messages are told
  std::vector<int64_t> ranks;  // global
  int64_t rank = 0;            // of this process within the group
  std::chrono::milliseconds timeout{0};

  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
};

struct Call {
  std::string op;      // "all_reduce"
  std::string detail;  // "sum", "root 2"; must agree between ranks
  std::string tensor;  // "float32 [4, 8]"; must agree between ranks
  int64_t bytes = 0;
  std::vector<int64_t> out_counts, in_counts;  // of an all_to_all
  std::source_location site;
  bool point_to_point = false;
  uint64_t sequence = 0;
};

// "float32 [4, 8]"
std::string describe(const at::Tensor& tensor);
// "0-3, 8"
std::string list_ranks(const std::vector<int64_t>& ranks);
// "all_reduce sum float32 [4, 8] at train/loop.cpp:80"
std::string describe(const Call& call);
// "data axis (ranks 0-3), operation 12: all_reduce sum float32 [4, 8] at train/loop.cpp:80"
std::string describe(const Group& group, const Call& call);

// Turns what a backend threw into WorldError (peer_lost, timeout), or into Bug for a call that could never
// work.
[[noreturn]] void throw_failure(const Group& group, const Call& call, const std::exception& error);
[[noreturn]] void throw_aborted(const Group& group, const Call& call);

}  // namespace muster::comm
