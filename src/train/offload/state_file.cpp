#include "train/offload/state_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/set/manifest.h"

namespace muster::train {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + AsyncFile::kAlign - 1) / AsyncFile::kAlign * AsyncFile::kAlign;
}

// Of `bytes`, where direct transfers can start.
at::Tensor make_buffer(const nn::Executor& run, int64_t bytes) {
  const at::Tensor room = run.empty({bytes + AsyncFile::kAlign}, nn::Category::host_optimizer, at::kByte);
  if (run.is_meta()) return room.narrow(0, 0, bytes);
  const auto start = reinterpret_cast<int64_t>(room.data_ptr());
  return room.narrow(0, aligned(start) - start, bytes);
}

}  // namespace

// Parts end at multiples of a cache line and more, so that kernels see no other tails than in memory.
size_t StateFile::add(int64_t elements, int64_t states) {
  const auto width = static_cast<int64_t>(c10::elementSize(format_));
  const int64_t most = options_.part_bytes / width;
  const size_t tensor = ranges_.size(), first_part = parts_.size();
  for (int64_t first = 0; first < elements; first += most) {
    Part part{tensor, first, std::min(most, elements - first), states, 0, file_bytes_, 0};
    part.stride = aligned(part.elements * width);
    file_bytes_ += part.bytes();
    parts_.push_back(part);
  }
  ranges_.emplace_back(first_part, parts_.size());
  return tensor;
}

void StateFile::open(nn::Executor& run) {
  int64_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.bytes());
  if (most == 0) return;
  for (Slot& slot : ring_) slot.bytes = make_buffer(run, most);
  if (run.is_meta()) return;
  const std::string zeros(static_cast<size_t>(most), '\0');
  for (Part& part : parts_)
    part.hash = hash64(std::string_view(zeros).substr(0, static_cast<size_t>(part.bytes())));
  file_.emplace(options_.folder, fmt::format("optimizer-state-of-rank-{}", options_.rank), file_bytes_,
                options_.kind);
}

std::vector<at::Tensor> StateFile::take(nn::Executor& run, size_t number) {
  MUSTER_CHECK(number == next_, "part {} is asked for, and {} is due", number, next_);
  Slot& present = slot(turn_);
  run.run("read state", {0, parts_[number].bytes()}, [&] {
    const double start = run.clock().seconds();
    const size_t following = (number + 1) % parts_.size();
    begin_read(present, number);
    if (following != number) begin_read(slot(turn_ + 1), following);
    wait(present);
    exposed_seconds_ += run.clock().seconds() - start;
    check(present);
  });
  std::vector<at::Tensor> states;
  for (int64_t state = 0; state < parts_[number].states; ++state)
    states.push_back(state_in(present, parts_[number], state));
  return states;
}

void StateFile::put(nn::Executor& run) {
  run.run("write state", {0, parts_[next_].bytes()}, [&] { begin_write(slot(turn_)); });
  ++turn_;
  next_ = (next_ + 1) % parts_.size();
}

void StateFile::read(size_t tensor, int64_t state, int64_t first, const at::Tensor& local) {
  for_overlaps(tensor, first, local.numel(), [&](size_t number, int64_t from, int64_t at, int64_t count) {
    local.narrow(0, at, count).copy_(state_in(hold(number), parts_[number], state).narrow(0, from, count));
  });
}

void StateFile::write(size_t tensor, int64_t state, int64_t first, const at::Tensor& local) {
  for_overlaps(tensor, first, local.numel(), [&](size_t number, int64_t from, int64_t at, int64_t count) {
    Slot& held = hold(number);
    state_in(held, parts_[number], state).narrow(0, from, count).copy_(local.narrow(0, at, count));
    begin_write(held);
    wait(held);
  });
}

telemetry::StateFileFigures StateFile::figures() const {
  if (!file_) return {};
  const Traffic traffic = file_->traffic();
  return {traffic.read_bytes, traffic.written_bytes, traffic.busy_seconds, exposed_seconds_};
}

// copy(part, its first element, the first element of the range, how many).
template <class Copy>
void StateFile::for_overlaps(size_t tensor, int64_t first, int64_t elements, Copy&& copy) {
  const auto [begin, end] = ranges_[tensor];
  for (size_t number = begin; number < end; ++number) {
    const Part& part = parts_[number];
    const int64_t from = std::max(first, part.first),
                  to = std::min(first + elements, part.first + part.elements);
    if (from < to) copy(number, from - part.first, from - first, to - from);
  }
}

// Any slot that has the part already, or one that does not hold what the next update begins with.
StateFile::Slot& StateFile::hold(size_t part) {
  settle();
  const auto found = std::ranges::find(ring_, std::optional(part), &Slot::part);
  Slot& held = found != ring_.end() ? *found : slot(turn_ + 1);
  begin_read(held, part);
  wait(held);
  check(held);
  return held;
}

// Nothing where the slot has the part. What was written of it must be there before it is read.
void StateFile::begin_read(Slot& slot, size_t part) {
  if (slot.part == part) return;
  wait(slot);
  for (Slot& other : ring_)
    if (other.part == part) wait(other), other.part.reset();
  begin(slot, part, Transfer::Kind::read);
}

void StateFile::begin_write(Slot& slot) {
  parts_[*slot.part].hash = hash64(contents(slot));
  begin(slot, *slot.part, Transfer::Kind::write);
}

void StateFile::begin(Slot& slot, size_t part, Transfer::Kind kind) {
  slot.part = part;
  slot.transfer.kind = kind;
  slot.transfer.data = static_cast<char*>(slot.bytes.data_ptr());
  slot.transfer.bytes = parts_[part].bytes();
  slot.transfer.offset = parts_[part].offset;
  file_->begin(slot.transfer);
}

void StateFile::wait(Slot& slot) {
  file_->wait(slot.transfer);
}

void StateFile::settle() {
  for (Slot& slot : ring_) wait(slot);
}

void StateFile::check(const Slot& slot) const {
  const Part& part = parts_[*slot.part];
  const uint64_t hash = hash64(contents(slot));
  if (hash != part.hash)
    throw WorldError(WorldError::Kind::data,
                     fmt::format("rank {}: {}: bytes {} to {} have hash {} where {} was written",
                                 options_.rank, file_->label(), part.offset, part.offset + part.bytes(),
                                 checkpoint::hash_text(hash), checkpoint::hash_text(part.hash)));
}

std::string_view StateFile::contents(const Slot& slot) const {
  return {static_cast<const char*>(slot.bytes.data_ptr()), static_cast<size_t>(parts_[*slot.part].bytes())};
}

at::Tensor StateFile::state_in(const Slot& slot, const Part& part, int64_t state) const {
  const auto width = static_cast<int64_t>(c10::elementSize(format_));
  return slot.bytes.narrow(0, state * part.stride, part.elements * width).view(format_);
}

}  // namespace muster::train
