#include "launch/progress.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"

namespace muster::launch {
namespace {

constexpr const char* kNames[kPhaseCount] = {"start",  "connect", "load",     "data", "forward", "backward",
                                             "reduce", "update",  "evaluate", "save", "finish"};

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int new_memory(int64_t bytes) {
  const int fd = memfd_create("muster-progress", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, bytes) != 0)
    throw WorldError(
        WorldError::Kind::device,
        fmt::format("cannot share {} bytes of memory with the ranks: {}", bytes, strerror(errno)));
  return fd;
}

int64_t bytes_of(int64_t ranks) {
  return ranks * static_cast<int64_t>(sizeof(ProgressSlot));
}

}  // namespace

const char* to_string(Phase phase) {
  const auto index = static_cast<int32_t>(phase);
  return index >= 0 && index < kPhaseCount ? kNames[index] : "?";
}

std::string describe(const Progress& progress) {
  if (progress.step == 0) return fmt::format("before step 1 in {}", to_string(progress.phase));
  return fmt::format("at step {} in {}", progress.step, to_string(progress.phase));
}

ProgressPage::ProgressPage(int64_t ranks) : fd_(new_memory(bytes_of(ranks))), ranks_(ranks) {
  map();
  for (int64_t rank = 0; rank < ranks_; ++rank) new (&slots_[rank]) ProgressSlot;
}

ProgressPage::ProgressPage(int fd, int64_t ranks) : fd_(fd), ranks_(ranks) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || status.st_size < bytes_of(ranks))
    throw UserError({"MUSTER_PROGRESS", std::to_string(fd), "is not the progress page of a launcher",
                     "unset it, or start the ranks with muster train --procs"});
  map();
}

ProgressPage::ProgressPage(ProgressPage&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), ranks_(other.ranks_), slots_(std::exchange(other.slots_, nullptr)) {}

ProgressPage::~ProgressPage() {
  if (slots_) munmap(slots_, static_cast<size_t>(bytes_of(ranks_)));
  if (fd_ >= 0) close(fd_);
}

void ProgressPage::map() {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes_of(ranks_)), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED)
    throw WorldError(WorldError::Kind::device,
                     fmt::format("cannot map the progress page: {}", strerror(errno)));
  slots_ = static_cast<ProgressSlot*>(memory);
}

Progress ProgressPage::read(int64_t rank) const {
  const ProgressSlot& slot = slots_[rank];
  return {slot.phase.load(), slot.step.load(), slot.micro_batch.load(), slot.changed_ns.load()};
}

Reporter Reporter::from(const Environment& environment) {
  Reporter reporter;
  const std::optional<std::string> fd = environment("MUSTER_PROGRESS");
  const std::optional<comm::World> world = fd ? world_from(environment) : std::nullopt;
  if (!world) return reporter;
  reporter.page_.emplace(std::atoi(fd->c_str()), world->local_size);
  reporter.rank_ = world->local_rank;
  return reporter;
}

void Reporter::at(Phase phase, int64_t step, int64_t micro_batch) {
  if (!page_) return;
  ProgressSlot& slot = page_->slot(rank_);
  slot.step.store(step, std::memory_order_relaxed);
  slot.micro_batch.store(micro_batch, std::memory_order_relaxed);
  slot.phase.store(phase, std::memory_order_relaxed);
  slot.changed_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

}  // namespace muster::launch
