// Collectives over sends and receives, each rank's part straight into its place in the result. All tensors
// must live until the work is waited for; it is done only then.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace muster::comm {

// Works that are over when all are; each may take `timeout`.
class Together final : public c10d::Work {
 public:
  explicit Together(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  void add(c10::intrusive_ptr<c10d::Work> work) { works_.push_back(std::move(work)); }
  bool isCompleted() override { return is_done_; }
  bool isSuccess() const override { return is_done_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return {}; }
  // Without a timeout of its own a part would wait as long as connecting may take.
  bool wait(std::chrono::milliseconds) override {
    for (const auto& work : works_)
      if (!work->wait(timeout_)) return false;
    return is_done_ = true;
  }

 private:
  std::chrono::milliseconds timeout_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  bool is_done_ = false;
};

// Gloo's own all-gather fills a buffer of its own, as large as the result, on its own thread, and copies:
// memory that no rehearsal foretells. Here nothing is allocated, each part travels once to each peer, and all
// of them at one time.
c10::intrusive_ptr<c10d::Work> gather_in_place(c10d::Backend& backend, const at::Tensor& out,
                                               const at::Tensor& in, std::chrono::milliseconds timeout);

// Sends row r of `in` to rank r as it comes into being, and receives this rank's row of each of them:
// out [size, n], in [size, n]. Made by all ranks in one order.
class ScatterInPlace {
 public:
  ScatterInPlace(c10d::Backend& backend, at::Tensor out, at::Tensor in, std::chrono::milliseconds timeout);
  // Row `rank` is there. The work, when it is the last; null else.
  c10::intrusive_ptr<c10d::Work> operator()(int64_t rank);

 private:
  c10d::Backend* backend_;
  at::Tensor out_, in_;
  int64_t missing_;
  c10::intrusive_ptr<Together> together_;
};

}  // namespace muster::comm
