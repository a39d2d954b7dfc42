// One message among ranks of one host, as one of them sees it: the bytes that it offers to others, and those
// that it takes from them, straight from memory to memory.
#pragma once
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/same_host/desk.h"
#include "comm/same_host/sum.h"

namespace muster::comm {

class Exchange;

// What is offered must not change until the message is over.
class Transfer final : public c10d::Work {
 public:
  Transfer(std::shared_ptr<Exchange> exchange, std::chrono::milliseconds timeout)
      : exchange_(std::move(exchange)), timeout_(timeout) {}

  // What it does, before it starts. `tensor` lives until the message is over, whoever lets go of it: all that
  // is offered or taken lies in tensors that are kept.
  void keep(const at::Tensor& tensor) { kept_.push_back(tensor); }
  // Keys tell the messages and parts between two ranks apart; offers and takes of one key meet in their
  // order.
  void offer(int64_t to, uint64_t key, const void* data, int64_t bytes);
  void take(int64_t from, uint64_t key, void* to, int64_t bytes);
  // Reduces a part of what all others offer under `key`, and does `then` when that is over: it offers and
  // takes the rest.
  void reduce(Sum sum, uint64_t key, std::function<void()> then);

  // Bytes that this rank has to move.
  int64_t bytes_to_move() const;

  // By the thread that drives the exchange. begin() once; advance() moves a chunk of what is there, and says
  // whether it did; over when nothing is left to do and all that was offered was read.
  void begin(Desk& desk);
  bool advance(Desk& desk);
  bool is_over() const;
  // The first rank of the group that it waits for; -1: none.
  int64_t waits_for(const Desk& desk) const;
  bool needs(int64_t rank) const;
  // Whether others may still read what lies here.
  bool is_offered() const { return !offers_.empty(); }
  // Without an error it keeps nothing any more; with one, what others may still read is kept as long as it
  // is.
  void finish(std::exception_ptr error);

  bool isCompleted() override { return is_done_; }
  bool isSuccess() const override { return is_done_ && !error_; }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  struct Offer {
    int64_t to;
    uint64_t key;
    const void* data;
    int64_t bytes;
    uint64_t number;
  };
  struct Take {
    int64_t from;
    uint64_t key;
    char* to;
    int64_t bytes, done;
    std::optional<Letter> letter;
    bool is_over() const { return letter && done == bytes; }
  };
  // The sum, and where the others' values lie.
  struct Reduction {
    Sum sum;
    uint64_t key;
    std::function<void()> then;
    std::vector<std::optional<Letter>> letters;
    int64_t done = 0;
  };

  void tell(Desk& desk);
  bool collect_receipts(Desk& desk);
  bool move(Desk& desk, Take& take);
  bool find_values(Desk& desk);
  bool move(Desk& desk, Reduction& reduction);

  std::shared_ptr<Exchange> exchange_;
  std::chrono::milliseconds timeout_;
  std::vector<Offer> offers_;  // not read yet; from told_ on not told of yet
  size_t told_ = 0;
  std::vector<Take> takes_;  // not over yet
  std::optional<Reduction> reduction_;
  std::vector<at::Tensor> kept_;

  std::mutex mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::exception_ptr error_;
  std::atomic<bool> is_done_ = false;
};

}  // namespace muster::comm
