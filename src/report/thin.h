// Long series made short enough to draw, without losing what the eye looks for.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace muster::report {

using Point = std::pair<double, double>;

// At most about `most` of the points, in order: the first, the last, and of each stretch between them the
// lowest and the highest, so that spikes stay.
std::vector<Point> thin(const std::vector<Point>& points, size_t most);

// At most about `most` indices into `sizes`: of each stretch the index of its largest value.
std::vector<size_t> thin_by_largest(const std::vector<double>& sizes, size_t most);

}  // namespace muster::report
