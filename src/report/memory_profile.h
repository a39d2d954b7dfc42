// Live memory along one step, ready to draw.
#pragma once
#include <string>
#include <vector>

#include "report/area_chart.h"
#include "telemetry/step_record.h"

namespace muster::report {

struct MemoryProfile {
  std::vector<double> positions;
  std::vector<Layer> layers;  // the categories that are ever live, persistent ones first
  std::vector<Band> phases;
  Mark peak;
  double x_high = 1, bytes_high = 1;
  bool by_operator = false;  // positions are operators; else memory events
};

// Thinned to about `most` samples; the peak is always among them.
MemoryProfile memory_profile(const telemetry::StepRecord& record, size_t most = 700);

// The colour class of a category, and its name for people.
std::string category_class(telemetry::Category category);
std::string category_name(telemetry::Category category);
// The colour class of an operator's phase.
std::string phase_class(const std::string& phase);

}  // namespace muster::report
