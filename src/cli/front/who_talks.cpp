#include "cli/front/who_talks.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/table.h"
#include "base/units.h"

namespace muster::cli {
namespace {

using Groups = std::vector<std::vector<int64_t>>;
using Messages = std::optional<std::vector<estimate::StepMessages>>;

template <class AxisOrSpan>
Groups groups_of(const spec::Mesh& mesh, AxisOrSpan over) {
  Groups all;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank)
    if (auto ranks = mesh.group(rank, over); ranks.front() == rank) all.push_back(std::move(ranks));
  return all;
}

// Ascending ranks stay inside a node when the first and the last do.
bool is_inside_nodes(const Groups& groups, int64_t devices_per_node) {
  return std::ranges::all_of(groups, [&](const std::vector<int64_t>& ranks) {
    return ranks.front() / devices_per_node == ranks.back() / devices_per_node;
  });
}

Talk talk_of(std::string axis, Groups groups, const spec::Hardware& hardware) {
  Talk talk{std::move(axis), std::move(groups), "unknown", {}};
  if (hardware.devices_per_node == 0) return talk;
  const bool inside = is_inside_nodes(talk.groups, hardware.devices_per_node);
  const spec::Link& link = inside ? hardware.scale_up : hardware.scale_out;
  talk.link = inside ? "scale_up" : "scale_out";
  if (link.bandwidth_bytes_per_second > 0) talk.bandwidth_bytes_per_second = link.bandwidth_bytes_per_second;
  return talk;
}

// The first few ranks of a long list: "0 1 2 3 ... 511".
std::string brief(const std::vector<int64_t>& ranks) {
  if (ranks.size() <= 8) return fmt::format("{}", fmt::join(ranks, " "));
  return fmt::format("{} ... {}", fmt::join(ranks.begin(), ranks.begin() + 4, " "), ranks.back());
}

std::string brief(const Groups& groups) {
  std::string text;
  for (size_t at = 0; at < groups.size() && at < 4; ++at)
    text += fmt::format("{}[{}]", at ? " " : "", brief(groups[at]));
  return groups.size() > 4 ? fmt::format("{} and {} more", text, groups.size() - 4) : text;
}

std::string link_text(const Talk& talk) {
  if (talk.link == "unknown") return "unknown";
  const std::string where = talk.link == "scale_up" ? "inside a node" : "between nodes";
  if (!talk.bandwidth_bytes_per_second) return where;
  return fmt::format("{}, {:.4g} GB/s", where, *talk.bandwidth_bytes_per_second / 1e9);
}

std::vector<estimate::StepMessages> on_axis(const Messages& messages, const std::string& axis) {
  std::vector<estimate::StepMessages> some;
  for (const estimate::StepMessages& each : *messages)
    if (each.axis == axis) some.push_back(each);
  return some;
}

}  // namespace

std::vector<Talk> who_talks(const spec::Mesh& mesh, const spec::Hardware& hardware) {
  std::vector<Talk> talks;
  for (const spec::Axis axis : mesh.order())
    if (mesh.size(axis) > 1) talks.push_back(talk_of(to_string(axis), groups_of(mesh, axis), hardware));
  for (const spec::Span span : spec::kSpans) {
    const std::string name = estimate::told(mesh, span);
    const bool is_known = std::ranges::count(talks, name, &Talk::axis) > 0;
    if (mesh.size(span) > 1 && !is_known) talks.push_back(talk_of(name, groups_of(mesh, span), hardware));
  }
  return talks;
}

Json to_json(const std::vector<Talk>& talks, const Messages& messages) {
  Json list = Json::array();
  for (const Talk& talk : talks) {
    Json carried;
    if (messages) {
      carried = Json::array();
      for (const estimate::StepMessages& each : on_axis(messages, talk.axis))
        carried.push_back({{"op", each.op}, {"bytes", each.bytes}});
    }
    const auto& bandwidth = talk.bandwidth_bytes_per_second;
    list.push_back({{"axis", talk.axis},
                    {"groups", talk.groups},
                    {"link", talk.link},
                    {"bandwidth_bytes_per_second", bandwidth ? Json(*bandwidth) : Json()},
                    {"messages", carried}});
  }
  return list;
}

std::string picture(const std::vector<Talk>& talks, const Messages& messages) {
  if (talks.empty()) return "one rank: nobody talks\n";
  Table table({"axis", "ranks", "groups that talk", "over", "operation", "bytes a step", ""});
  for (const Talk& talk : talks) {
    const auto carried = messages ? on_axis(messages, talk.axis) : std::vector<estimate::StepMessages>{};
    const std::string size = std::to_string(talk.groups.front().size());
    const auto line = [&](bool first, const std::string& op, const std::string& bytes,
                          const std::string& text) {
      table.add({first ? talk.axis : "", first ? size : "", first ? brief(talk.groups) : "",
                 first ? link_text(talk) : "", op, bytes, text});
    };
    if (carried.empty()) line(true, messages ? "none of its own" : "see muster rehearse", "", "");
    for (size_t at = 0; at < carried.size(); ++at)
      line(at == 0, carried[at].op, format_exact(carried[at].bytes), format_bytes(carried[at].bytes));
  }
  return table.text();
}

}  // namespace muster::cli
