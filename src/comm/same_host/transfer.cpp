#include "comm/same_host/transfer.h"

#include <ATen/core/ivalue_inl.h>

#include <algorithm>

#include "base/error.h"
#include "comm/same_host/exchange.h"

namespace muster::comm {
namespace {

// Moved at one go: the thread that drives looks up for other messages in between.
constexpr int64_t kChunkBytes = int64_t{512} << 10;

void check_bytes(const Neighbour& from, const Letter& offer, int64_t bytes) {
  if (offer.bytes == static_cast<uint64_t>(bytes)) return;
  throw WorldError(WorldError::Kind::mismatch, fmt::format("rank {} sends {} bytes where {} are expected",
                                                           from.peer.rank(), offer.bytes, bytes));
}

}  // namespace

void Transfer::offer(int64_t to, uint64_t key, const void* data, int64_t bytes) {
  offers_.push_back({to, key, data, bytes, 0});
}

void Transfer::take(int64_t from, uint64_t key, void* to, int64_t bytes) {
  takes_.push_back({from, key, static_cast<char*>(to), bytes, 0, std::nullopt});
}

void Transfer::reduce(Sum sum, uint64_t key, std::function<void()> then) {
  reduction_.emplace(Reduction{std::move(sum), key, std::move(then), {}, 0});
}

int64_t Transfer::bytes_to_move() const {
  int64_t bytes = reduction_ ? reduction_->sum.elements() * reduction_->sum.element_bytes() : 0;
  for (const Take& take : takes_) bytes += take.bytes;
  return bytes;
}

void Transfer::begin(Desk& desk) {
  if (reduction_) reduction_->letters.resize(static_cast<size_t>(desk.size()));
  tell(desk);
}

void Transfer::tell(Desk& desk) {
  for (; told_ < offers_.size(); ++told_) {
    Offer& offer = offers_[told_];
    offer.number = desk.offer(offer.to, offer.key, offer.data, offer.bytes);
  }
}

bool Transfer::advance(Desk& desk) {
  bool moved = false;
  for (Take& take : takes_) moved |= move(desk, take);
  std::erase_if(takes_, [](const Take& take) { return take.is_over(); });
  if (reduction_ && find_values(desk)) moved |= move(desk, *reduction_);
  return collect_receipts(desk) || moved;
}

bool Transfer::collect_receipts(Desk& desk) {
  const size_t read = std::erase_if(offers_, [&](const Offer& offer) { return desk.was_read(offer.number); });
  told_ -= read;
  return read > 0;
}

bool Transfer::move(Desk& desk, Take& take) {
  if (!take.letter) {
    take.letter = desk.find(take.from, take.key);
    if (!take.letter) return false;
    check_bytes(desk.neighbour(take.from), *take.letter, take.bytes);
  }
  const int64_t part = std::min(kChunkBytes, take.bytes - take.done);
  if (part > 0)
    desk.neighbour(take.from).read(take.to + take.done,
                                   take.letter->address + static_cast<uint64_t>(take.done), part);
  take.done += part;
  if (take.is_over()) desk.confirm(take.from, *take.letter);
  return true;
}

// Whether all others have offered theirs.
bool Transfer::find_values(Desk& desk) {
  bool all = true;
  for (int64_t rank = 0; rank < desk.size(); ++rank) {
    std::optional<Letter>& letter = reduction_->letters[static_cast<size_t>(rank)];
    if (letter || rank == desk.rank()) continue;
    letter = desk.find(rank, reduction_->key);
    if (letter)
      check_bytes(desk.neighbour(rank), *letter,
                  reduction_->sum.elements() * reduction_->sum.element_bytes());
    else
      all = false;
  }
  return all;
}

bool Transfer::move(Desk& desk, Reduction& reduction) {
  Sum& sum = reduction.sum;
  const int64_t begin = reduction.done, width = sum.element_bytes();
  const int64_t count = std::min(sum.chunk_elements(), sum.elements() - begin);
  for (int64_t rank = 0; rank < desk.size() && count > 0; ++rank) {
    const std::optional<Letter>& letter = reduction.letters[static_cast<size_t>(rank)];
    if (letter)
      desk.neighbour(rank).read(sum.room(), letter->address + static_cast<uint64_t>(begin * width),
                                count * width);
    sum.add(begin, count, rank, letter ? sum.room() : nullptr);
  }
  if (count > 0) sum.store(begin, count);
  reduction.done += count;
  if (reduction.done < sum.elements()) return true;
  for (int64_t rank = 0; rank < desk.size(); ++rank)
    if (const auto& letter = reduction.letters[static_cast<size_t>(rank)]) desk.confirm(rank, *letter);
  const std::function<void()> then = std::move(reduction.then);
  reduction_.reset();
  then();
  tell(desk);
  return true;
}

bool Transfer::is_over() const {
  return takes_.empty() && !reduction_ && offers_.empty();
}

bool Transfer::needs(int64_t rank) const {
  if (reduction_) return true;
  return std::ranges::any_of(takes_, [&](const Take& take) { return take.from == rank; }) ||
         std::ranges::any_of(offers_, [&](const Offer& offer) { return offer.to == rank; });
}

int64_t Transfer::waits_for(const Desk& desk) const {
  for (const Take& take : takes_)
    if (!take.letter) return take.from;
  if (reduction_)
    for (int64_t rank = 0; rank < desk.size(); ++rank)
      if (rank != desk.rank() && !reduction_->letters[static_cast<size_t>(rank)]) return rank;
  return offers_.empty() ? -1 : offers_.front().to;
}

void Transfer::finish(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (is_done_) return;
  if (!error) kept_.clear();  // before anybody goes on: what is freed then is freed by its owner
  error_ = error;
  is_done_ = true;
  if (!future_) return;
  error ? future_->setError(error) : future_->markCompleted();
}

bool Transfer::wait(std::chrono::milliseconds timeout) {
  exchange_->wait(*this, timeout == kNoTimeout ? timeout_ : timeout);
  if (error_) std::rethrow_exception(error_);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Transfer::getFuture() {
  const std::lock_guard lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
  if (is_done_) error_ ? future_->setError(error_) : future_->markCompleted();
  return future_;
}

}  // namespace muster::comm
