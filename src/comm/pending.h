// A collective under way, inside the comm room.
#pragma once
#include <atomic>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/call.h"
#include "comm/communicator.h"

namespace muster::comm {

// The line that a message has in the record, filled in as the message goes on.
class MessageLine {
 public:
  MessageLine() = default;
  // Appends the message to the record, if one is being written.
  MessageLine(std::shared_ptr<MessageLog> log, const Group& group, const Call& call, bool timed);
  // From now on notes when `work` ends, on whichever thread ends it. A work that does not tell gives way to
  // one that does.
  void watch(c10::intrusive_ptr<c10d::Work>& work, bool tells, std::chrono::milliseconds timeout);
  // The rank stood still for the message.
  void expose(double seconds);
  // The result is asked for; and, `seconds` later, there.
  void needed();
  void waited(double seconds);

 private:
  telemetry::MessageEvent* event() const;

  std::shared_ptr<MessageLog> log_;
  telemetry::StepRecord* record_ = nullptr;
  size_t index_ = 0;
  bool timed_ = false;
  std::shared_ptr<std::atomic<double>> done_at_;
};

struct Pending::State {
  std::shared_ptr<const Group> group;
  Call call;
  c10::intrusive_ptr<c10d::Work> work;  // null: nothing had to move, or not all parts are ready
  // Of a message whose input comes in parts: sends one; the work when it is the last.
  std::function<c10::intrusive_ptr<c10d::Work>(int64_t rank)> send_part;
  std::function<void()> finish;
  MessageLine line;
  bool waited = false;
  std::vector<at::Tensor> lent;
  void wait_for_work();
  // Never waited for: an error is under way, and the backend may still be writing.
  ~State();
};

}  // namespace muster::comm
