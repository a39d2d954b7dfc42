#include "comm/same_host/backend.h"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "comm/same_host/exchange.h"
#include "comm/same_host/introduction.h"

namespace muster::comm {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Counts = std::vector<int64_t>;

// What part of which message: collectives are counted alike on all ranks, sends carry their tag.
uint64_t key_of(uint64_t collective, int half = 0) {
  return collective << 1 | static_cast<uint64_t>(half);
}
uint64_t key_of_tag(int tag) {
  return uint64_t{1} << 63 | static_cast<uint32_t>(tag);
}

// The elements [begin, end) of `rank` where n are shared out as evenly as can be.
struct Share {
  int64_t begin, end;
  Share(int64_t n, int64_t rank, int64_t size) : begin(n * rank / size), end(n * (rank + 1) / size) {}
  int64_t size() const { return end - begin; }
};

Reduce to_reduce(const c10d::ReduceOp& op) {
  return op == c10d::ReduceOp::MAX   ? Reduce::maximum
         : op == c10d::ReduceOp::MIN ? Reduce::minimum
                                     : Reduce::sum;
}

char* bytes_at(const at::Tensor& tensor, int64_t element) {
  return static_cast<char*>(tensor.data_ptr()) + element * static_cast<int64_t>(tensor.element_size());
}

class SameHost final : public c10d::Backend {
 public:
  SameHost(int rank, int size, std::shared_ptr<Exchange> exchange, std::chrono::milliseconds timeout)
      : Backend(rank, size), exchange_(std::move(exchange)), timeout_(timeout) {}
  ~SameHost() override { exchange_->stop(); }
  const std::string getBackendName() const override { return "memory"; }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work all_gather_single(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions&) override;
  Work all_to_all_single(at::Tensor& out, at::Tensor& in, Counts& out_counts, Counts& in_counts,
                         const c10d::AllToAllOptions&) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work barrier(const c10d::BarrierOptions&) override;

 private:
  // What moves between these tensors and others'.
  template <typename... T>
  c10::intrusive_ptr<Transfer> transfer(const T&... tensors) const {
    auto transfer = c10::make_intrusive<Transfer>(exchange_, timeout_);
    (transfer->keep(tensors), ...);
    return transfer;
  }
  Work start(c10::intrusive_ptr<Transfer> transfer) const {
    exchange_->start(transfer);
    return transfer;
  }
  // The others, the next one first: no one is everybody's first.
  template <typename F>
  void for_others(const F& body) const {
    for (int step = 1; step < getSize(); ++step) body((getRank() + step) % getSize());
  }
  void gather(Transfer& transfer, uint64_t key, const at::Tensor& whole, const at::Tensor& part) const;

  std::shared_ptr<Exchange> exchange_;
  std::chrono::milliseconds timeout_;
  uint64_t collectives_ = 0;
};

// Reduce-scatter and all-gather in one: each rank reduces its share of the elements, and tells it to all.
Work SameHost::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor whole = tensors.front().view({-1});
  const uint64_t scatter = key_of(collectives_, 0), gather = key_of(collectives_, 1);
  ++collectives_;
  const auto share = [n = whole.numel(), size = getSize()](int rank) { return Share(n, rank, size); };
  const auto width = static_cast<int64_t>(whole.element_size());
  const Share own = share(getRank());

  auto message = transfer(whole);
  for_others([&](int other) {
    message->offer(other, scatter, bytes_at(whole, share(other).begin), share(other).size() * width);
  });
  auto then = [this, message = message.get(), whole, share, width, own, gather] {
    for_others([&](int other) {
      message->offer(other, gather, bytes_at(whole, own.begin), own.size() * width);
      message->take(other, gather, bytes_at(whole, share(other).begin), share(other).size() * width);
    });
  };
  Sum sum(whole.narrow(0, own.begin, own.size()), to_reduce(options.reduceOp));
  message->reduce(std::move(sum), scatter, std::move(then));
  return start(std::move(message));
}

Work SameHost::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = tensors.front();
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const uint64_t key = key_of(collectives_++);
  auto message = transfer(tensor);
  if (options.rootRank == getRank())
    for_others([&](int other) { message->offer(other, key, tensor.data_ptr(), bytes); });
  else
    message->take(static_cast<int64_t>(options.rootRank), key, tensor.data_ptr(), bytes);
  return start(std::move(message));
}

void SameHost::gather(Transfer& transfer, uint64_t key, const at::Tensor& whole,
                      const at::Tensor& part) const {
  const auto bytes = static_cast<int64_t>(part.nbytes());
  for_others([&](int other) {
    transfer.offer(other, key, part.data_ptr(), bytes);
    transfer.take(other, key, bytes_at(whole, other * part.numel()), bytes);
  });
}

Work SameHost::all_gather_single(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions&) {
  auto message = transfer(out, in);
  gather(*message, key_of(collectives_++), out, in);
  char* const place = bytes_at(out, getRank() * in.numel());
  if (place != in.data_ptr() && in.nbytes() > 0) std::memcpy(place, in.data_ptr(), in.nbytes());
  return start(std::move(message));
}

Work SameHost::all_to_all_single(at::Tensor& out, at::Tensor& in, Counts& out_counts, Counts& in_counts,
                                 const c10d::AllToAllOptions&) {
  const auto size = static_cast<size_t>(getSize()), rank = static_cast<size_t>(getRank());
  // Of no counts all parts are alike, in elements.
  const auto begins = [size](const at::Tensor& tensor, const Counts& counts) {
    const int64_t row = counts.empty() || tensor.size(0) == 0 ? 1 : tensor.numel() / tensor.size(0);
    Counts begins(size + 1, 0);
    for (size_t at = 0; at < size; ++at)
      begins[at + 1] =
          begins[at] + (counts.empty() ? tensor.numel() / static_cast<int64_t>(size) : counts[at] * row);
    return begins;
  };
  const Counts to = begins(out, out_counts), from = begins(in, in_counts);
  const auto width = static_cast<int64_t>(in.element_size());
  const uint64_t key = key_of(collectives_++);
  auto message = transfer(out, in);
  for_others([&](int number) {
    const auto other = static_cast<size_t>(number);
    message->offer(number, key, bytes_at(in, from[other]), (from[other + 1] - from[other]) * width);
    message->take(number, key, bytes_at(out, to[other]), (to[other + 1] - to[other]) * width);
  });
  const int64_t own = (from[rank + 1] - from[rank]) * width;
  if (own > 0) std::memcpy(bytes_at(out, to[rank]), bytes_at(in, from[rank]), static_cast<size_t>(own));
  return start(std::move(message));
}

Work SameHost::send(Tensors& tensors, int to, int tag) {
  auto message = transfer(tensors.front());
  message->offer(to, key_of_tag(tag), tensors.front().data_ptr(),
                 static_cast<int64_t>(tensors.front().nbytes()));
  return start(std::move(message));
}

Work SameHost::recv(Tensors& tensors, int from, int tag) {
  auto message = transfer(tensors.front());
  message->take(from, key_of_tag(tag), tensors.front().data_ptr(),
                static_cast<int64_t>(tensors.front().nbytes()));
  return start(std::move(message));
}

Work SameHost::barrier(const c10d::BarrierOptions&) {
  const uint64_t key = key_of(collectives_++);
  auto message = transfer();
  for_others([&](int other) {
    message->offer(other, key, nullptr, 0);
    message->take(other, key, nullptr, 0);
  });
  return start(std::move(message));
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> connect_same_host(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int64_t>& names, int64_t rank,
                                                    const SameHostOptions& options) {
  std::optional<Desk> desk = introduce(*store, names, rank);
  if (!desk) return {};
  return c10::make_intrusive<SameHost>(static_cast<int>(rank), static_cast<int>(names.size()),
                                       std::make_shared<Exchange>(std::move(*desk), options.has_a_core),
                                       options.timeout);
}

}  // namespace muster::comm
