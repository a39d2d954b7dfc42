// What the operating system says of this process's memory.
#pragma once
#include <cstdint>

namespace muster::device {

int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // the most so far
// Seconds since this process was started, by the system's clock since boot.
double seconds_since_process_start();

}  // namespace muster::device
