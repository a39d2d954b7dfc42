// A hardware file is TOML. Every key but `name` may be left out: the figure is then unknown.
//
//   name = "..."  source = "..."  notes = "..."
//   memory_bytes = 80000000000                     one device
//   memory_bandwidth_bytes_per_second = 3.35e12
//   devices_per_node = 8
//   [peak_flops]                                   dense, a second
//   float32 = 6.7e13                               float64 float32 tfloat32 bfloat16 float16 float8 float4
//   [scale_up]                                     inside a node; [scale_out]: between nodes
//   bandwidth_bytes_per_second = 4.5e11            one direction, one device
//   latency_seconds = 3e-6
//   source = "..."
#include "spec/hardware/hardware.h"

#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace muster::spec {
namespace {

constexpr const char* kDtypes[] = {"float64", "float32", "tfloat32", "bfloat16",
                                   "float16", "float8",  "float4"};

// Reads the keys of one table; what is left unread is unknown.
class Reader {
 public:
  Reader(const toml::table& table, std::string where, Problems& problems)
      : table_(table), where_(std::move(where)), problems_(problems) {}

  void text(const char* key, std::string& out) {
    const toml::node* node = take(key);
    if (!node) return;
    node->is_string() ? void(out = **node->as_string()) : refuse(key, "must be a text");
  }
  void figure(const char* key, double& out) {
    const toml::node* node = take(key);
    if (!node) return;
    const double number = node->is_number() ? node->value<double>().value_or(0) : 0;
    number > 0 && std::isfinite(number) ? void(out = number) : refuse(key, "must be a positive number");
  }
  void count(const char* key, int64_t& out) {
    const toml::node* node = take(key);
    if (!node) return;
    node->is_integer() && **node->as_integer() > 0 ? void(out = **node->as_integer())
                                                   : refuse(key, "must be a positive whole number");
  }
  // Reads a table inside this one.
  template <class Read>
  void table(const char* key, Read&& read) {
    const toml::node* node = take(key);
    if (!node) return;
    if (!node->is_table()) return refuse(key, "must be a table");
    Reader inner(*node->as_table(), where_ + key + ".", problems_);
    read(inner);
    inner.refuse_rest();
  }
  void refuse_rest() {
    for (const auto& [key, node] : table_)
      if (std::ranges::find(taken_, key.str()) == taken_.end())
        refuse(std::string(key.str()).c_str(), "no such key");
  }

 private:
  const toml::node* take(const char* key) {
    taken_.push_back(key);
    return table_.get(key);
  }
  void refuse(const char* key, const char* rule) {
    problems_.add(where_ + key, "", rule, "src/spec/hardware/hardware.cpp gives the grammar");
  }

  const toml::table& table_;
  std::string where_;
  Problems& problems_;
  std::vector<std::string_view> taken_;
};

void read_link(Reader& reader, Link& link) {
  reader.figure("bandwidth_bytes_per_second", link.bandwidth_bytes_per_second);
  reader.figure("latency_seconds", link.latency_seconds);
  reader.text("source", link.source);
}

void read_peaks(Reader& reader, std::map<std::string, double>& peaks) {
  for (const char* dtype : kDtypes) {
    double flops = 0;
    reader.figure(dtype, flops);
    if (flops > 0) peaks[dtype] = flops;
  }
}

Hardware read_hardware(const toml::table& file, const std::string& path) {
  Hardware hardware;
  Problems problems;
  Reader reader(file, path + ": ", problems);
  reader.text("name", hardware.name);
  reader.text("source", hardware.source);
  reader.text("notes", hardware.notes);
  reader.count("memory_bytes", hardware.memory_bytes);
  reader.figure("memory_bandwidth_bytes_per_second", hardware.memory_bandwidth_bytes_per_second);
  reader.count("devices_per_node", hardware.devices_per_node);
  reader.table("peak_flops", [&](Reader& inner) { read_peaks(inner, hardware.peak_flops); });
  reader.table("scale_up", [&](Reader& inner) { read_link(inner, hardware.scale_up); });
  reader.table("scale_out", [&](Reader& inner) { read_link(inner, hardware.scale_out); });
  reader.refuse_rest();
  if (hardware.name.empty()) problems.add(path + ": name", "", "is missing", "give the device's name");
  problems.throw_if_any();
  return hardware;
}

Hardware read_hardware_file(const fs::path& path) {
  try {
    return read_hardware(toml::parse(read_text(path, 1 << 20), path.string()), path.string());
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw UserError({fmt::format("{}:{}:{}", path.string(), at.line, at.column), "",
                     std::string(error.description()), "a hardware file is TOML"});
  } catch (const WorldError& error) {
    throw UserError({"hardware", path.string(), error.what(), "give the path of a hardware file"});
  }
}

// Beside the program (build/muster: ../configs/hardware) or installed (../share/muster/hardware).
fs::path hardware_folder() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  for (fs::path above = program.parent_path(); above != above.root_path(); above = above.parent_path())
    for (const char* place : {"configs/hardware", "share/muster/hardware"})
      if (fs::is_directory(above / place)) return above / place;
  return {};
}

// "H100 SXM" and "h100-sxm" are one name.
std::string file_name(const std::string& name) {
  std::string text;
  for (unsigned char letter : name) {
    if (std::isalnum(letter))
      text += static_cast<char>(std::tolower(letter));
    else if (!text.empty() && text.back() != '-')
      text += '-';
  }
  while (text.ends_with('-')) text.pop_back();
  return text;
}

Hardware local_hardware() {
  const fs::path path = local_hardware_path();
  if (!path.empty() && fs::exists(path)) return read_hardware_file(path);
  Hardware unknown;
  unknown.name = "local";
  unknown.source = "this machine has not been measured";
  return unknown;
}

}  // namespace

std::optional<double> Hardware::peak(const std::string& dtype) const {
  const auto found = peak_flops.find(dtype);
  if (found == peak_flops.end()) return std::nullopt;
  return found->second;
}

std::string local_hardware_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config && *config) return fs::path(config) / "muster/hardware.toml";
  const char* home = std::getenv("HOME");
  return home && *home ? fs::path(home) / ".config/muster/hardware.toml" : fs::path();
}

Hardware load_hardware(const std::string& name_or_path) {
  if (name_or_path == "local") return local_hardware();
  if (name_or_path.ends_with(".toml") || name_or_path.find('/') != name_or_path.npos)
    return read_hardware_file(name_or_path);
  const fs::path path = hardware_folder() / (file_name(name_or_path) + ".toml");
  if (fs::exists(path)) return read_hardware_file(path);
  throw UserError(
      {"hardware.name", name_or_path, "no such hardware",
       fmt::format("use one of {}, \"local\", or the path of a file", fmt::join(hardware_names(), ", "))});
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  const fs::path folder = hardware_folder();
  if (folder.empty()) return names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

}  // namespace muster::spec
