// One worker process of a launcher.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/progress.h"

namespace muster::launch {

// How a process ended.
struct Ending {
  int status = 0;  // exit status, where `signal` is 0
  int signal = 0;
  Progress progress;
  bool well() const { return status == 0 && signal == 0; }
};
// "exited with 17", "was killed by SIGSEGV"
std::string describe(const Ending& ending);

class Worker {
 public:
  // Starts this program again with `arguments` and `variables` ("NAME=value"), in a process group of its own,
  // stdin empty; it inherits `descriptors` alone besides stdout and stderr, and dies with this process.
  Worker(int64_t rank, const std::vector<std::string>& arguments, const std::vector<std::string>& variables,
         const std::vector<int>& descriptors);
  // Kills what is left of it.
  ~Worker();
  Worker(Worker&& other) noexcept;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int64_t rank() const { return rank_; }
  const std::optional<Ending>& ending() const { return ending_; }
  // Notes whether it has ended; then nothing of its process group is left.
  void look(const ProgressPage& page);
  // To its process group.
  void signal(int number) const;

 private:
  int64_t rank_;
  pid_t process_ = -1;
  std::optional<Ending> ending_;
};

}  // namespace muster::launch
