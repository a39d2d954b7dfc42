// One key's value: read from what a file, the environment or the command line gave, and written as TOML.
#pragma once
#include <filesystem>
#include <string>

#include "base/json.h"
#include "spec/config/fields.h"

namespace muster::spec {

// A value as somebody gave it. TOML's values are carried as JSON's, which they all have a twin in.
struct Given {
  const Field* field = nullptr;
  Json value;
  std::string origin;            // "file job.toml:12", "environment MUSTER_DATA_PATH", "command line"
  std::filesystem::path folder;  // what relative paths start from
};

// Reads `given` into its place in the job and checks it against the key's domain. Throws UserError.
void read_value(const Given& given, Job& job);

// The text value of a key that has no place in the job (model.preset, model.config); paths made absolute.
std::string read_text_value(const Given& given);

// The value of a key as TOML, "3", "\"ring\"", "[0.9, 0.95]".
std::string to_toml(const Field& field, Job& job);
// The same as JSON.
Json to_json(const Field& field, Job& job);

}  // namespace muster::spec
