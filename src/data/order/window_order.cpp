#include "data/order/window_order.h"

#include "base/error.h"
#include "base/random.h"

namespace muster::data {

Order parse_order(const std::string& name) {
  if (name == "sequential") return Order::sequential;
  if (name == "shuffled") return Order::shuffled;
  throw UserError({"data.order", name, "is not an order of the data", "use \"shuffled\" or \"sequential\""});
}

int64_t WindowOrder::window(int64_t draw) const {
  MUSTER_CHECK(draw >= 0, "draw {}", draw);
  const int64_t place = draw % windows_;
  if (order_ == Order::sequential) return place;
  const PhiloxKey key = random_key(seed_, fmt::format("{}epoch {}", name_, epoch(draw)));
  return static_cast<int64_t>(
      permute_index(static_cast<uint64_t>(place), static_cast<uint64_t>(windows_), key));
}

}  // namespace muster::data
