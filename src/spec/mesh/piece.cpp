#include "spec/mesh/piece.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace muster::spec {
namespace {

Part whole_part(const std::vector<int64_t>& shape) {
  return {0, {{0, 0, shape.empty() ? 1 : shape[0]}}};
}

int64_t size_of(const std::vector<int64_t>& shape, int dim) {
  return shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
}

}  // namespace

std::string check_part(const std::vector<int64_t>& shape, const Part& part) {
  if (part.dim < 0 || part.dim >= std::max<int>(1, static_cast<int>(shape.size())))
    return fmt::format("it has no dim {}", part.dim);
  int64_t local = 0, global = 0;
  const int64_t extent = size_of(shape, part.dim);
  for (const IndexRun& run : part.runs) {
    if (run.local != local || run.global < global || run.size < 0 || run.size > extent - run.global)
      return fmt::format("the run [{}, +{}) of dim {} with {} indices is out of order or range", run.global,
                         run.size, part.dim, extent);
    local += run.size;
    global = run.global + run.size;
  }
  return "";
}

Piece::Piece(std::vector<int64_t> shape) : Piece(shape, whole_part(shape)) {}

Piece::Piece(std::vector<int64_t> shape, Part part) : shape_(std::move(shape)), part_(std::move(part)) {
  const std::string problem = check_part(shape_, part_);
  MUSTER_CHECK(problem.empty(), "a part of a tensor: {}", problem);
  for (int dim = 0; dim < static_cast<int>(shape_.size()); ++dim)
    (dim < part_.dim ? outer_ : dim == part_.dim ? extent_ : inner_) *= size_of(shape_, dim);
  held_ = 0;
  for (const IndexRun& run : part_.runs) {
    held_ += run.size;
    if (run.size > 0) runs_.push_back(run);
  }
  if (held_ == extent_) {  // the whole is one run, whatever its shape
    inner_ *= outer_ * extent_;
    outer_ = extent_ = held_ = 1;
    runs_ = {{0, 0, 1}};
  }
  end_ = part_elements();
}

Piece Piece::narrow(int64_t first, int64_t last) const {
  MUSTER_CHECK(0 <= first && first <= last && last <= elements(), "[{}, {}) of a piece of {} elements", first,
               last, elements());
  Piece piece = *this;
  piece.begin_ = begin_ + first;
  piece.end_ = begin_ + last;
  return piece;
}

std::vector<int64_t> Piece::local_shape() const {
  std::vector<int64_t> shape = shape_;
  if (elements() != part_elements() || (shape.empty() && elements() == 0)) return {elements()};
  if (shape.empty()) return shape;
  int64_t held = 0;
  for (const IndexRun& run : part_.runs) held += run.size;
  shape[static_cast<size_t>(part_.dim)] = held;
  return shape;
}

FlatRun Piece::run_from(int64_t local) const {
  MUSTER_CHECK(0 <= local && local < elements(), "element {} of {}", local, elements());
  const int64_t at = begin_ + local, outer = at / (held_ * inner_), within = at % (held_ * inner_);
  const auto run = std::ranges::upper_bound(runs_, within / inner_, {}, &IndexRun::local) - 1;
  const int64_t into = within - run->local * inner_;
  return {local, (outer * extent_ + run->global) * inner_ + into,
          std::min(run->size * inner_ - into, end_ - at)};
}

int64_t Piece::find(int64_t global) const {
  if (elements() == 0) return 0;
  const int64_t outer = global / (extent_ * inner_), within = global % (extent_ * inner_);
  const auto ends = [](const IndexRun& run) { return run.global + run.size; };
  const auto first = std::ranges::upper_bound(runs_, within / inner_, {}, ends);
  int64_t at = (outer + 1) * held_ * inner_;
  if (first != runs_.end()) {
    const int64_t into = std::max<int64_t>(0, within - first->global * inner_);
    at = (outer * held_ + first->local) * inner_ + into;
  }
  return std::clamp(at, begin_, end_) - begin_;
}

CopyRuns::CopyRuns(const Piece& from, const Piece& to)
    : from_(from), to_(to), same_part_(from.part() == to.part()) {
  MUSTER_CHECK(from.shape() == to.shape(), "pieces of two tensors");
}

// Within one part the order is the same on both sides.
std::optional<CopyRun> CopyRuns::next_of_one_part() {
  const int64_t begin = std::max(from_.begin(), to_.begin()), end = std::min(from_.end(), to_.end());
  if (source_ == from_.elements() || begin >= end) return std::nullopt;
  source_ = from_.elements();
  return CopyRun{begin - from_.begin(), begin - to_.begin(), end - begin};
}

std::optional<CopyRun> CopyRuns::next() {
  if (same_part_) return next_of_one_part();
  while (source_ < from_.elements() && destination_ < to_.elements()) {
    const FlatRun a = from_.run_from(source_), b = to_.run_from(destination_);
    if (a.global + a.count <= b.global) {
      source_ = from_.find(b.global);
    } else if (b.global + b.count <= a.global) {
      destination_ = to_.find(a.global);
    } else {
      const int64_t first = std::max(a.global, b.global);
      const int64_t last = std::min(a.global + a.count, b.global + b.count);
      const CopyRun copy{a.local + first - a.global, b.local + first - b.global, last - first};
      source_ = copy.source + copy.count;
      destination_ = copy.destination + copy.count;
      return copy;
    }
  }
  return std::nullopt;
}

namespace {

// A part, and the flat ranges of it that pieces hold.
struct Held {
  const Part* part;
  int64_t elements;
  std::vector<std::pair<int64_t, int64_t>> ranges;
};

std::vector<Held> by_part(const std::vector<Piece>& pieces) {
  std::vector<const Piece*> sorted;
  for (const Piece& piece : pieces)
    if (piece.elements() > 0) sorted.push_back(&piece);
  std::ranges::sort(sorted, [](const Piece* a, const Piece* b) {
    return a->part() == b->part() ? a->begin() < b->begin() : a->part() < b->part();
  });
  std::vector<Held> parts;
  for (const Piece* piece : sorted) {
    if (parts.empty() || *parts.back().part != piece->part())
      parts.push_back({&piece->part(), piece->part_elements(), {}});
    parts.back().ranges.emplace_back(piece->begin(), piece->end());
  }
  return parts;
}

std::string check_ranges(const Held& held) {
  int64_t next = 0;
  for (const auto& [begin, end] : held.ranges) {
    if (begin > next) return fmt::format("leave out elements {} to {} of a part", next, begin);
    if (begin < next) return fmt::format("overlap in elements {} to {} of a part", begin, next);
    next = end;
  }
  return next == held.elements ? ""
                               : fmt::format("leave out elements {} to {} of a part", next, held.elements);
}

}  // namespace

std::string check_tiling(const std::vector<int64_t>& shape, const std::vector<Piece>& pieces) {
  const Piece whole(shape);
  const std::vector<Held> parts = by_part(pieces);
  if (whole.elements() == 0) return "";
  if (parts.empty()) return fmt::format("leave out all {} elements", whole.elements());
  std::vector<IndexRun> runs;
  for (const Held& held : parts) {
    if (const std::string problem = check_ranges(held); !problem.empty()) return problem;
    if (held.part->dim != parts.front().part->dim) return "are cut along two dims";
    runs.insert(runs.end(), held.part->runs.begin(), held.part->runs.end());
  }
  std::ranges::sort(runs, {}, [](const IndexRun& run) { return std::pair(run.global, run.size); });
  const int dim = parts.front().part->dim;
  int64_t next = 0;
  for (const IndexRun& run : runs) {
    if (run.global > next) return fmt::format("leave out indices {} to {} of dim {}", next, run.global, dim);
    if (run.global < next) return fmt::format("overlap in indices {} to {} of dim {}", run.global, next, dim);
    next = run.global + run.size;
  }
  const int64_t extent = size_of(shape, dim);
  return next == extent ? "" : fmt::format("leave out indices {} to {} of dim {}", next, extent, dim);
}

}  // namespace muster::spec
