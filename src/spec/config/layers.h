// The layers in which a key can be given, lowest first: the job's file, the environment, the command line. A
// higher layer replaces the whole value of a lower one.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "spec/config/value.h"

namespace muster::spec {

struct Layers {
  std::map<std::string, Given> given;  // by "section.key"; only what somebody gave
  std::set<std::string> doubtful;      // keys that a misspelt one probably meant: rules on them would mislead
  Problems problems;
};

// Grammar of the file: TOML 1.0, tables [section] with the keys of fields.h, read by toml++. Throws
// UserError with line and column when the file is not TOML: nothing of it can be judged then.
void add_file(Layers& layers, const std::string& toml, const std::string& path);

// MUSTER_<SECTION>_<KEY>=value, for every key: MUSTER_OPTIMIZER_LEARNING_RATE=1e-4.
void add_environment(Layers& layers);

// Each setting is section.key=value. Here and in the environment a value is TOML, or else a text; the word
// `default` takes the key back to its default, whatever the file says. Relative paths start from the current
// folder.
void add_settings(Layers& layers, const std::vector<std::string>& settings);

// One key's text as `origin` has it, "section.key" and its value as to_toml() wrote it.
void add_recorded(Layers& layers, const std::string& name, const std::string& toml,
                  const std::string& origin);

}  // namespace muster::spec
