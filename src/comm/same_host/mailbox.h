// A rank's letters from the other ranks of its host, in memory that they share: where the bytes of a message
// lie, and that they were read. The bytes themselves stay where they are.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace muster::comm {

struct Letter {
  enum class Kind : uint64_t { offer, receipt };
  Kind kind = Kind::offer;
  uint64_t number = 0;   // of the offer, by the rank that made it
  uint64_t key = 0;      // offers: what part of which message it is
  uint64_t address = 0;  // offers: in the memory of the rank that made it
  uint64_t bytes = 0;
};

// One slot a sender: from a slot to its owner letters come in the order in which they were put. A slot is
// put into by one thread at a time, and taken from by one thread at a time.
class Mailbox {
 public:
  // This process's own; `senders` slots.
  explicit Mailbox(int64_t senders);
  // Another's: the file `fd` of process `process`.
  Mailbox(int process, int fd, int64_t senders);
  ~Mailbox();
  Mailbox(Mailbox&&) noexcept;
  Mailbox(const Mailbox&) = delete;

  // Of the owner, until all have opened it.
  int fd() const { return fd_; }
  void close_fd();

  // By a sender. put: false where the slot is full.
  bool put(int64_t sender, const Letter& letter);
  // Wakes an owner that sleeps.
  void ring();
  // Whether what the owner offered may lie in its memory no longer.
  bool has_left() const;

  // By the owner.
  void leave();
  std::optional<Letter> take(int64_t sender);
  uint32_t rings() const;
  // Until somebody rings or a signal comes, `at_most` long; not at all where someone has rung since rings()
  // was `seen`.
  void sleep(uint32_t seen, std::chrono::microseconds at_most);

 private:
  struct Bell;
  struct Slot;
  void map(int64_t senders);
  int fd_ = -1;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
  Bell* bell_ = nullptr;
  Slot* slots_ = nullptr;
};

}  // namespace muster::comm
