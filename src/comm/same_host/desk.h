// Where the letters of one rank come in and go out, sorted by what they belong to. One thread at a time.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "comm/same_host/mailbox.h"
#include "comm/same_host/peer.h"

namespace muster::comm {

// Another rank of the group, as this one reaches it.
struct Neighbour {
  Peer peer;
  Mailbox mailbox;

  // Fills `to` with what it offered. std::runtime_error where its memory is gone, or no longer what it
  // offered.
  void read(void* to, uint64_t address, int64_t bytes) const;
  bool is_there() const { return !mailbox.has_left() && peer.is_alive(); }
};

class Desk {
 public:
  // `others`: one a rank of the group, in order; nothing at `rank`.
  Desk(int64_t rank, Mailbox own, std::vector<std::optional<Neighbour>> others)
      : rank_(rank),
        own_(std::move(own)),
        others_(std::move(others)),
        came_(others_.size()),
        outgoing_(others_.size()) {}

  int64_t rank() const { return rank_; }
  int64_t size() const { return static_cast<int64_t>(others_.size()); }
  Mailbox& own() { return own_; }
  const Neighbour& neighbour(int64_t rank) const { return *others_[static_cast<size_t>(rank)]; }

  // Tells rank `to` that these bytes lie here, until it has read them. Returns the offer's number; 0 for no
  // bytes, of which nobody tells that they were read.
  uint64_t offer(int64_t to, uint64_t key, const void* data, int64_t bytes);
  // Whether that offer was read; true once.
  bool was_read(uint64_t number) { return number == 0 || read_.erase(number) > 0; }
  // The next offer of rank `from` for `key`, if it is there; once.
  std::optional<Letter> find(int64_t from, uint64_t key);
  // `offer` of rank `from` was read.
  void confirm(int64_t from, const Letter& offer);

  // Takes in what came, and gives out what was told. Whether anything came.
  bool sort();
  // Whether letters wait for room in a mailbox.
  bool owes() const;

 private:
  void send(int64_t to, const Letter& letter) { outgoing_[static_cast<size_t>(to)].push_back(letter); }
  void take_in(int64_t from, const Letter& letter);
  void give_out(int64_t to);

  int64_t rank_;
  Mailbox own_;
  std::vector<std::optional<Neighbour>> others_;
  std::vector<std::unordered_map<uint64_t, std::deque<Letter>>> came_;  // offers nobody asked for yet
  std::vector<std::deque<Letter>> outgoing_;
  std::unordered_set<uint64_t> read_;
  uint64_t offers_ = 0;
};

}  // namespace muster::comm
