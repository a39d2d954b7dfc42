// The verbs that answer without loading torch; one file each.
#pragma once

namespace muster::cli {}  // namespace muster::cli
