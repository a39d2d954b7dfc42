#include "comm/gather_in_place.h"

#include <vector>

namespace muster::comm {
namespace {

// Far from the tags that callers give to sends of their own; between two ranks messages of one tag arrive in
// the order in which they were sent.
constexpr int kTag = 1 << 30;

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

}  // namespace

c10::intrusive_ptr<c10d::Work> gather_in_place(c10d::Backend& backend, const at::Tensor& out,
                                               const at::Tensor& in, std::chrono::milliseconds timeout) {
  const int size = backend.getSize(), rank = backend.getRank();
  const at::Tensor parts = out.view({size, -1});
  auto together = c10::make_intrusive<Together>(timeout);
  std::vector<at::Tensor> mine{in.view({-1})};
  // Ranks start with their next neighbour, so that no one is everybody's first.
  for (int step = 1; step < size; ++step) {
    std::vector<at::Tensor> part{parts[(rank + size - step) % size]};
    together->add(backend.recv(part, (rank + size - step) % size, kTag));
    together->add(backend.send(mine, (rank + step) % size, kTag));
  }
  at::Tensor place = parts[rank];
  if (place.data_ptr() != in.data_ptr()) place.copy_(mine.front());
  return together;
}

}  // namespace muster::comm
