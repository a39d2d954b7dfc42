// The verbs that need torch; one file each.
#pragma once

namespace muster::cli {}  // namespace muster::cli
