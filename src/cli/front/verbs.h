// The verbs that answer without loading torch; one file each.
#pragma once

namespace muster::cli {

int data(int argc, char** argv);
int doctor(int argc, char** argv);
int estimate(int argc, char** argv);
int report(int argc, char** argv);

}  // namespace muster::cli
