// What happened side by side in time: one lane a track, bars where something ran.
#pragma once
#include <string>
#include <vector>

namespace muster::report {

struct Bar {
  double start = 0, end = 0;  // seconds
  std::string name, css_class, detail;
};
// Bars of a lane may overlap: the lane then has several rows.
struct Lane {
  std::string name;
  std::vector<Bar> bars;
};

// Bars too narrow to see are drawn together with their neighbours of the same class.
std::string lanes(const std::vector<Lane>& lanes, double start_seconds, double end_seconds);

}  // namespace muster::report
