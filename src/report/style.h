// The page's style sheet and its one script.
#pragma once

namespace muster::report {

extern const char* const kStyleSheet;
extern const char* const kHoverScript;

}  // namespace muster::report
