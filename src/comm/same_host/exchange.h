// Moves the messages of one group of ranks of this host. They move when somebody drives: a rank that waits
// for one of them does, on its own thread, without a switch to another; while none waits, a thread of the
// exchange does, beside what the rank computes. It carries large messages from the start, and looks after
// small ones now and then, so that nobody waits for long for a rank that has turned to other things.
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/same_host/desk.h"
#include "comm/same_host/transfer.h"

namespace muster::comm {

class Exchange {
 public:
  // `has_a_core`: each thread that computes on this host has a core for itself, so that a wait may begin with
  // looking again and again, which is over sooner than a sleep.
  Exchange(Desk desk, bool has_a_core);
  ~Exchange();
  Exchange(const Exchange&) = delete;

  // Offers leave at once. A message of few bytes to move is moved by whoever waits for it.
  void start(c10::intrusive_ptr<Transfer> transfer);
  // Until it is over, or has failed: std::runtime_error after `timeout`, naming a rank that did not come;
  // at once where a process that it needs has ended.
  void wait(Transfer& transfer, std::chrono::milliseconds timeout);
  // Fails what is under way; nothing is moved any more. Letters that others wait for still leave, where they
  // make room for them soon. What they have not read by then they are not to read any more.
  void stop();

 private:
  struct UnderWay {
    UnderWay(c10::intrusive_ptr<Transfer> message, bool carried)
        : transfer(std::move(message)), is_carried(carried) {}
    c10::intrusive_ptr<Transfer> transfer;
    bool is_carried;
  };
  bool try_pass();
  bool pass();
  bool begin_new();
  void end_over();
  void look_at_debts();
  void run();
  void wake();
  bool is_idle() const { return waiters_ > 0 || carried_ == 0; }
  void rest();
  void look_for_lost();
  void give_up(Transfer& transfer, std::chrono::milliseconds timeout);

  Desk desk_;  // with active_ and failed_: of whoever holds drives_
  std::vector<UnderWay> active_;
  std::vector<c10::intrusive_ptr<Transfer>> failed_;  // whose memory others may still read, until stop()
  std::mutex drives_;
  std::mutex new_mutex_;
  std::vector<UnderWay> new_;
  bool has_a_core_;

  std::atomic<int> waiters_ = 0;
  std::atomic<int> under_way_ = 0, carried_ = 0;  // all; those that are worth a thread
  std::atomic<bool> owes_ = false;                // letters, for which there was no room
  std::atomic<uint64_t> started_ = 0;
  uint64_t started_before_ = 0;  // when the thread last looked
  std::mutex sleep_mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
  std::atomic<bool> rests_ = false;  // until it is woken
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace muster::comm
