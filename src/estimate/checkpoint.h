// Checkpoints: their size, their time, how often.
#pragma once
#include <cmath>
#include <cstdint>

namespace muster::estimate {

// Bytes of a full checkpoint: P parameters with all their state (16 in mixed precision with Adam: 2 + 2 + 12;
// 14 where gradients are left out).
inline double checkpoint_bytes(double parameters, double bytes_per_parameter) {
  return parameters * bytes_per_parameter;
}

// Seconds to write it through `bytes_per_second` of all writers together. Says nothing of what a file system
// adds per file.
inline double checkpoint_seconds(double bytes, double bytes_per_second) {
  return bytes / bytes_per_second;
}

// Share of time lost to blocking checkpoints: cost over interval, the interval counted from start to start.
inline double share_lost(double cost_seconds, double every_seconds) {
  return cost_seconds / every_seconds;
}

// The interval of least waste, to first order: sqrt(2 C M), C cost of a checkpoint, M mean time between
// failures (Young, "A first order approximation to the optimum checkpoint interval", CACM 1974).
// True while C is small against M.
inline double young_interval(double cost_seconds, double mtbf_seconds) {
  return std::sqrt(2 * cost_seconds * mtbf_seconds);
}

// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006,
// equation (37): sqrt(2CM) (1 + sqrt(C/2M)/3 + (C/2M)/9) - C for C < 2M, and M from there on.
// Time of useful work between checkpoints.
inline double daly_interval(double cost_seconds, double mtbf_seconds) {
  const double ratio = cost_seconds / (2 * mtbf_seconds);
  if (ratio >= 1) return mtbf_seconds;
  return young_interval(cost_seconds, mtbf_seconds) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_seconds;
}

// Share of time that is not useful work, for `interval` seconds of work between checkpoints, failures that
// come at random with mean M and strike work, checkpoint and restart alike: 1 - t / (M e^(R/M)
// (e^((t+C)/M) - 1)), Daly 2006, section 3. Least at daly_interval to the order of that formula.
inline double waste(double interval_seconds, double cost_seconds, double mtbf_seconds,
                    double restart_seconds = 0) {
  const double segment = std::expm1((interval_seconds + cost_seconds) / mtbf_seconds);
  return 1 - interval_seconds / (mtbf_seconds * std::exp(restart_seconds / mtbf_seconds) * segment);
}

// Mean time between failures of a job on `nodes` nodes that fail independently, each with mean M: M / N.
inline double job_mtbf(double node_mtbf_seconds, int64_t nodes) {
  return node_mtbf_seconds / static_cast<double>(nodes);
}

}  // namespace muster::estimate
