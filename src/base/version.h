// Of this program: told by `muster --version`, and kept in summaries and checkpoints.
#pragma once

namespace muster {

constexpr const char* kVersion = "0.1.0";

}  // namespace muster
