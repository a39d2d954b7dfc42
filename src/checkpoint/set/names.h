// The names of a run's checkpoints. A name carries step and generation, and what is under way a nonce too, so
// that no two processes ever write to one path.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::checkpoint {

struct SetName {
  int64_t step = 0;
  int64_t generation = 0;
  bool operator==(const SetName&) const = default;
  // Of two checkpoints, the one to go on from is the later step, then the later generation.
  auto operator<=>(const SetName&) const = default;
};

constexpr const char* kManifest = "MANIFEST.json";
constexpr const char* kCommit = "COMMIT";

// "step-00000020.g1"
std::string to_string(const SetName& name);
std::optional<SetName> parse_set_name(std::string_view text);

// What a file of a checkpoint may be called: [A-Za-z0-9_-] first, then those and dots, 128 at most.
bool is_plain_name(std::string_view name);

// 16 hexadecimal digits that no other process has.
std::string new_nonce();

}  // namespace muster::checkpoint
