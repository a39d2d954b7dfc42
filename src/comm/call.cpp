#include "comm/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "base/error.h"
#include "base/units.h"

namespace muster::comm {
namespace {

// "src/train/loop.cpp" whatever the folder that it was built in.
std::string short_path(std::string path) {
  const size_t at = path.rfind("/src/");
  return at == std::string::npos ? path : path.substr(at + 1);
}

// A backend's message without the source file that it begins with, and no longer than its first line.
std::string reason(std::string text) {
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find("] ");
    if (end != std::string::npos) text = text.substr(end + 2);
  }
  return text.substr(0, text.find('\n'));
}

bool is_timeout(const std::string& text) {
  for (const char* word : {"imed out", "imeout", "IMEOUT"})
    if (text.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  std::string dtype = c10::toString(tensor.scalar_type());
  return fmt::format("{} [{}]", dtype, fmt::join(tensor.sizes(), ", "));
}

std::string list_ranks(const std::vector<int64_t>& ranks) {
  std::string text;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[first]);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string describe(const Call& call) {
  std::string text = call.op;
  if (!call.detail.empty()) text += " " + call.detail;
  if (!call.tensor.empty()) text += " " + call.tensor;
  if (!call.in_counts.empty())
    text +=
        fmt::format(" to [{}] from [{}]", fmt::join(call.in_counts, ", "), fmt::join(call.out_counts, ", "));
  return fmt::format("{} at {}:{}", text, short_path(call.site.file_name()), call.site.line());
}

std::string describe(const Group& group, const Call& call) {
  return fmt::format("{} axis (ranks {}), operation {}: {}", group.axis, list_ranks(group.ranks),
                     call.sequence, describe(call));
}

void throw_failure(const Group& group, const Call& call, const std::exception& error) {
  const std::string where = describe(group, call), why = reason(error.what());
  if (dynamic_cast<const std::invalid_argument*>(&error)) throw Bug(where + ": " + why);
  if (const auto* told = dynamic_cast<const WorldError*>(&error))
    throw WorldError(told->kind(), where + ": " + why);
  if (is_timeout(why)) {
    const double seconds = std::chrono::duration<double>(group.timeout).count();
    throw WorldError(WorldError::Kind::timeout, fmt::format("{}: not all ranks came within {} ({})", where,
                                                            format_seconds(seconds), why));
  }
  throw WorldError(WorldError::Kind::peer_lost, fmt::format("{}: lost a peer ({})", where, why));
}

void throw_aborted(const Group& group, const Call& call) {
  throw WorldError(WorldError::Kind::peer_lost, describe(group, call) + ": was aborted");
}

}  // namespace muster::comm
