// A job as text: TOML that parses back, and the manual of its keys.
#include "spec/config/job.h"
#include "spec/config/rules.h"
#include "spec/config/value.h"

namespace muster::spec {
namespace {

// A comment ends with its line, whatever a file's name holds.
std::string on_one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

// A key without effect is a comment: given, it would be refused.
std::string line(const Field& field, Job& job) {
  const std::string name = field.name(), idle = idle_reason(job, name);
  const std::string value = fmt::format("{} = {}", field.key, to_toml(field, job));
  return idle.empty() ? fmt::format("{}  # {}\n", value, on_one_line(job.origins[name]))
                      : fmt::format("# {}  # no effect: {}\n", value, idle);
}

std::string type_of(const Field& field) {
  if (!field.in) return "text";
  Job job;
  constexpr const char* names[] = {"text",          "whole number",    "whole number",  "number",
                                   "true or false", "list of numbers", "list of texts", "text",
                                   "table",         "list of tables"};
  return names[field.in(job).index()];
}

std::string default_of(const Field& field) {
  if (!field.in) return "";
  Job job;
  return fmt::format("`{}`", to_toml(field, job));
}

std::string row(const Field& field) {
  std::string allowed = describe(field.domain);
  if (!field.unit.empty()) allowed += fmt::format("{}in {}", allowed.empty() ? "" : ", ", field.unit);
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key, type_of(field), default_of(field), allowed,
                     field.doc);
}

constexpr const char* kPreface = R"(# The keys of a job

A job is a TOML file. This page is made by `muster doctor --keys` from the table that parses them
(`src/spec/config/fields.cpp`); a test fails when it is stale.

A key takes its value from the first of these that gives one:

1. the command line: `--set section.key=value`, the last one wins. A value is TOML; a bare word is a text;
   `default` takes the key back to its default, whatever the file says;
2. the environment: `MUSTER_<SECTION>_<KEY>`, as in `MUSTER_OPTIMIZER_LEARNING_RATE=1e-4`;
3. the job's file;
4. `model.preset` or `model.config`, for the model's dimensions;
5. the default.

`muster doctor JOB` prints every value with where it came from. Paths in the file start from its folder; paths
on the command line and in the environment start from the current folder.

A misspelt key, a value outside its range, a combination that cannot be and a setting that would have no effect
are errors, all reported together before anything starts.
)";

}  // namespace

std::string effective_toml(const Job& given) {
  Job job = given;
  std::string text;
  for (std::string_view section : sections()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const Field& field : fields())
      if (field.section == section && field.in) text += line(field, job);
  }
  return text;
}

std::string keys_markdown() {
  std::string text = kPreface;
  for (std::string_view section : sections()) {
    text += fmt::format("\n## [{}]\n\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n",
                        section);
    for (const Field& field : fields())
      if (field.section == section) text += row(field);
  }
  text += "\nOther names of model keys, as gpt2's `config.json` has them:";
  for (const Alias& alias : aliases()) text += fmt::format(" `{}` is `{}`;", alias.other, alias.key);
  text.back() = '.';
  text +=
      "\n\n## Not built yet\n\nThese are read and checked, so that a job can be planned; one that asks for "
      "them is refused by name.\n\n";
  for (const std::string& line : not_built()) text += "- " + line + "\n";
  return text;
}

}  // namespace muster::spec
