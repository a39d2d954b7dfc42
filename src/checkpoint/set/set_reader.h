// Elements of a checkpoint's tensors into memory, whatever layout wrote them and whatever layout wants them.
#pragma once
#include <list>

#include "checkpoint/deliver.h"
#include "checkpoint/set/shard.h"

namespace muster::checkpoint {

class SetReader {
 public:
  // What stays in memory are the last chunks of the `most_held` files read last. A file whose chunks are
  // asked for in turn with those of others, as the columns of a matrix are, is so read once.
  SetReader(fs::path folder, const Manifest& manifest, size_t most_held)
      : folder_(std::move(folder)), manifest_(&manifest), most_held_(most_held) {}

  struct Order {
    const ManifestTensor* tensor;
    Destination to;
  };
  // Brings to each destination what it holds of its tensor, converted to its dtype. Goes through each file
  // once, and reads the chunks that have something of the orders; a chunk is verified before anything of it
  // is used. Throws as ShardReader does.
  void read(const std::vector<Order>& orders);

 private:
  ShardReader& open(int64_t file);
  fs::path folder_;
  const Manifest* manifest_;  // outlives this
  size_t most_held_;
  std::list<std::pair<int64_t, ShardReader>> held_;  // used last first
};

}  // namespace muster::checkpoint
