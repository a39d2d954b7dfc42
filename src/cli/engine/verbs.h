// The verbs that need torch; one file each.
#pragma once

namespace muster::cli {

int rehearse(int argc, char** argv);

}  // namespace muster::cli
