// The parts of a run's page, each HTML from what the run left; a part without its data says what is missing.
#pragma once
#include <string>

#include "report/run_files.h"

namespace muster::report {

std::string title_and_cards(const RunFiles& run);   // overview.cpp
std::string what_ran_section(const RunFiles& run);  // what_ran.cpp
std::string loss_section(const RunFiles& run);      // curves.cpp
std::string speed_section(const RunFiles& run);     // curves.cpp
std::string memory_section(const RunFiles& run);    // memory.cpp
std::string messages_section(const RunFiles& run);  // messages.cpp
std::string step_section(const RunFiles& run);      // step.cpp
std::string time_section(const RunFiles& run);      // time.cpp
std::string files_section(const RunFiles& run);     // what_ran.cpp

}  // namespace muster::report
