#include "comm/same_host/mailbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace muster::comm {

struct Mailbox::Bell {
  alignas(64) std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> has_left;
};

// Counts go on for ever; a letter's place is its count modulo the slot's size.
struct Mailbox::Slot {
  static constexpr uint32_t kLetters = 256;
  alignas(64) std::atomic<uint32_t> put;
  alignas(64) std::atomic<uint32_t> taken;
  alignas(64) Letter letters[kLetters];
};

namespace {

[[noreturn]] void fail(const char* call) {
  throw std::runtime_error(fmt::format("{}: {}", call, std::strerror(errno)));
}

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

// New pages are zero, which is an empty mailbox.
Mailbox::Mailbox(int64_t senders) : fd_(::memfd_create("muster-mailbox", MFD_CLOEXEC)) {
  if (fd_ < 0) fail("memfd_create");
  if (::ftruncate(fd_, static_cast<off_t>(sizeof(Bell) + static_cast<size_t>(senders) * sizeof(Slot))) != 0)
    fail("ftruncate");
  map(senders);
}

Mailbox::Mailbox(int process, int fd, int64_t senders) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, fd);
  fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) fail(path.c_str());
  map(senders);
  close_fd();
}

Mailbox::Mailbox(Mailbox&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, nullptr)),
      bell_(other.bell_),
      slots_(other.slots_) {}

Mailbox::~Mailbox() {
  close_fd();
  if (memory_) ::munmap(memory_, bytes_);
}

void Mailbox::map(int64_t senders) {
  bytes_ = sizeof(Bell) + static_cast<size_t>(senders) * sizeof(Slot);
  memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory_ == MAP_FAILED) {
    memory_ = nullptr;
    fail("mmap");
  }
  bell_ = static_cast<Bell*>(memory_);
  slots_ = reinterpret_cast<Slot*>(static_cast<char*>(memory_) + sizeof(Bell));
}

void Mailbox::close_fd() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool Mailbox::put(int64_t sender, const Letter& letter) {
  Slot& slot = slots_[sender];
  const uint32_t put = slot.put.load(std::memory_order_relaxed);
  if (put - slot.taken.load(std::memory_order_acquire) == Slot::kLetters) return false;
  slot.letters[put % Slot::kLetters] = letter;
  slot.put.store(put + 1, std::memory_order_release);
  return true;
}

// Either the ringer sees the sleeper, or the sleeper sees the ring: both write before they read, in one order
// for all.
void Mailbox::ring() {
  bell_->rings.fetch_add(1, std::memory_order_seq_cst);
  if (bell_->sleepers.load(std::memory_order_seq_cst) > 0)
    ::syscall(SYS_futex, &bell_->rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Mailbox::has_left() const {
  return bell_->has_left.load(std::memory_order_seq_cst) != 0;
}

void Mailbox::leave() {
  bell_->has_left.store(1, std::memory_order_seq_cst);
}

std::optional<Letter> Mailbox::take(int64_t sender) {
  Slot& slot = slots_[sender];
  const uint32_t taken = slot.taken.load(std::memory_order_relaxed);
  if (slot.put.load(std::memory_order_acquire) == taken) return std::nullopt;
  const Letter letter = slot.letters[taken % Slot::kLetters];
  slot.taken.store(taken + 1, std::memory_order_release);
  return letter;
}

uint32_t Mailbox::rings() const {
  return bell_->rings.load(std::memory_order_seq_cst);
}

void Mailbox::sleep(uint32_t seen, std::chrono::microseconds at_most) {
  const timespec time{at_most.count() / 1'000'000, at_most.count() % 1'000'000 * 1000};
  bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &bell_->rings, FUTEX_WAIT, seen, &time, nullptr, 0);
  bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace muster::comm
