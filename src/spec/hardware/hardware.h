// A hardware file: what a device, a node and its links can do, each figure with its source.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::spec {

struct Link {
  double bandwidth_bytes_per_second = 0;  // one direction, one device
  double latency_seconds = 0;
  std::string source;
};

struct Hardware {
  std::string name;
  std::string source;                            // where the figures came from
  std::map<std::string, double> peak_flops;      // dense, by dtype name: "float32", "bfloat16", "float8", ...
  int64_t memory_bytes = 0;                      // of one device; 0: unknown
  double memory_bandwidth_bytes_per_second = 0;  // 0: unknown
  int64_t devices_per_node = 0;                  // 0: unknown
  Link scale_up;                                 // inside a node
  Link scale_out;                                // between nodes
  std::string notes;

  // The dense peak for a dtype; nothing where it is not known: MFU is then "unknown", never a guess.
  std::optional<double> peak(const std::string& dtype) const;
};

// A name under configs/hardware (found beside the program or in the checkout), a path to a TOML file, or
// "local": what `muster probe` wrote for this machine, or an entry with every figure unknown. Throws
// UserError.
Hardware load_hardware(const std::string& name_or_path);
std::vector<std::string> hardware_names();
// Where the figures of this machine stand: $XDG_CONFIG_HOME/muster/hardware.toml, or under ~/.config. Empty
// where neither is set.
std::string local_hardware_path();

}  // namespace muster::spec
