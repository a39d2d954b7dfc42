// For tests that need ranks: each a thread of this process.
#pragma once
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"

namespace muster::comm {

// Calls body(world) as each of `size` ranks. They meet in a file that goes with them.
inline void as_ranks(int64_t size, const std::function<void(const World&)>& body) {
  std::string path = "/tmp/muster-ranks-XXXXXX";
  close(mkstemp(path.data()));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      World world;
      world.rank = world.local_rank = rank;
      world.size = world.local_size = size;
      world.store_file = path;
      body(world);
    });
  for (std::thread& thread : threads) thread.join();
  unlink(path.c_str());
}

}  // namespace muster::comm
