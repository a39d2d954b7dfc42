#include "comm/same_host/desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace muster::comm {

void Neighbour::read(void* to, uint64_t address, int64_t bytes) const {
  peer.read(to, address, bytes);
  if (mailbox.has_left()) throw std::runtime_error(fmt::format("rank {} has left", peer.rank()));
}

uint64_t Desk::offer(int64_t to, uint64_t key, const void* data, int64_t bytes) {
  const uint64_t number = bytes > 0 ? ++offers_ : 0;
  send(to,
       {Letter::Kind::offer, number, key, reinterpret_cast<uint64_t>(data), static_cast<uint64_t>(bytes)});
  return number;
}

std::optional<Letter> Desk::find(int64_t from, uint64_t key) {
  auto& came = came_[static_cast<size_t>(from)];
  const auto at = came.find(key);
  if (at == came.end()) return std::nullopt;
  const Letter letter = at->second.front();
  at->second.pop_front();
  if (at->second.empty()) came.erase(at);
  return letter;
}

void Desk::confirm(int64_t from, const Letter& offer) {
  if (offer.number != 0) send(from, {Letter::Kind::receipt, offer.number, 0, 0, 0});
}

bool Desk::sort() {
  bool came = false;
  for (int64_t other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    while (const std::optional<Letter> letter = own_.take(other)) {
      take_in(other, *letter);
      came = true;
    }
    give_out(other);
  }
  return came;
}

bool Desk::owes() const {
  return std::ranges::any_of(outgoing_, [](const std::deque<Letter>& letters) { return !letters.empty(); });
}

void Desk::take_in(int64_t from, const Letter& letter) {
  if (letter.kind == Letter::Kind::receipt)
    read_.insert(letter.number);
  else
    came_[static_cast<size_t>(from)][letter.key].push_back(letter);
}

void Desk::give_out(int64_t to) {
  std::deque<Letter>& letters = outgoing_[static_cast<size_t>(to)];
  Mailbox& mailbox = others_[static_cast<size_t>(to)]->mailbox;
  bool gave = false;
  while (!letters.empty() && mailbox.put(rank_, letters.front())) {
    letters.pop_front();
    gave = true;
  }
  if (gave) mailbox.ring();
  if (!letters.empty() && !neighbour(to).is_there()) letters.clear();
}

}  // namespace muster::comm
