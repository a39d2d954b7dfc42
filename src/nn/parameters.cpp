#include "nn/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "spec/mesh/local_shape.h"

namespace muster::nn {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  return elements;
}

}  // namespace

ParameterStore::ParameterStore(const spec::ParameterTable& table, const spec::Mesh& mesh, const Executor& run,
                               int64_t bucket_bytes)
    : table_(&table) {
  std::vector<int64_t> unit_elements(static_cast<size_t>(table.units()));
  for (const spec::ParameterRow& row : table.rows()) {
    int64_t& used = unit_elements[static_cast<size_t>(row.unit)];
    offsets_.push_back(used);
    used += product(spec::local_shape(row, mesh));
  }
  for (int64_t elements : unit_elements) unit_values_.push_back(run.empty({elements}, Category::parameters));
  make_buckets(run, unit_elements, bucket_bytes);
  make_views(mesh);
  make_segments(mesh);
}

void ParameterStore::make_buckets(const Executor& run, const std::vector<int64_t>& unit_elements,
                                  int64_t bucket_bytes) {
  unit_gradients_.resize(unit_elements.size());
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(run.dtype()));
  int64_t last = table_->units() - 1, elements = 0;
  for (int64_t unit = last; unit >= 0; --unit) {
    elements += unit_elements[static_cast<size_t>(unit)];
    if (elements * element_bytes < bucket_bytes && unit > 0) continue;
    buckets_.push_back({unit, last, run.empty({elements}, Category::gradients)});
    int64_t at = 0;
    for (int64_t inner = unit; inner <= last; ++inner) {
      const int64_t size = unit_elements[static_cast<size_t>(inner)];
      unit_gradients_[static_cast<size_t>(inner)] = buckets_.back().gradient.narrow(0, at, size);
      at += size;
    }
    last = unit - 1;
    elements = 0;
  }
}

void ParameterStore::make_views(const spec::Mesh& mesh) {
  for (const spec::ParameterRow& row : table_->rows()) {
    const auto shape = spec::local_shape(row, mesh);
    const int64_t offset = offsets_[views_.size()];
    const auto unit = static_cast<size_t>(row.unit);
    Weight view;
    view.value = unit_values_[unit].narrow(0, offset, product(shape)).view(shape);
    view.gradient = unit_gradients_[unit].narrow(0, offset, product(shape)).view(shape);
    view.stored_in_out = row.stored_in_out;
    views_.push_back(std::move(view));
  }
}

void ParameterStore::make_segments(const spec::Mesh& mesh) {
  const auto& rows = table_->rows();
  const auto is_split = [&](size_t row) { return spec::is_split(rows[row], mesh, spec::Axis::tensor); };
  const auto copies = [&](size_t row) { return spec::copies(rows[row], mesh, spec::Axis::tensor); };
  for (size_t first = 0; first < rows.size();) {
    size_t last = first;
    int64_t elements = 0;
    while (last < rows.size() && rows[last].unit == rows[first].unit &&
           rows[last].is_matrix == rows[first].is_matrix && is_split(last) == is_split(first) &&
           copies(last) == copies(first))
      elements += views_[last++].value.numel();
    const auto unit = static_cast<size_t>(rows[first].unit);
    segments_.push_back({unit_values_[unit].narrow(0, offsets_[first], elements),
                         unit_gradients_[unit].narrow(0, offsets_[first], elements), rows[first].is_matrix,
                         is_split(first), copies(first)});
    first = last;
  }
}

Weight* ParameterStore::weight(int64_t unit, std::initializer_list<spec::Role> roles) {
  const auto& rows = table_->rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const spec::ParameterRow& row) {
    return row.unit == unit && row.role == *roles.begin();
  });
  if (found == rows.end()) return nullptr;
  const auto first = static_cast<size_t>(found - rows.begin());
  for (size_t at = 0; at < roles.size(); ++at)
    MUSTER_CHECK(rows[first + at].role == roles.begin()[at], "{} does not stand where it is joined",
                 rows[first + at].name);
  return weight_of(first, roles.size());
}

// Rows [first, first + count) as one weight, the same object each time it is asked for.
Weight* ParameterStore::weight_of(size_t first, size_t count) {
  const std::pair<size_t, size_t> range{first, first + count};
  const auto known = std::find(weight_rows_.begin(), weight_rows_.end(), range);
  if (known != weight_rows_.end()) return &weights_[static_cast<size_t>(known - weight_rows_.begin())];
  Weight joined = views_[first];
  if (count > 1) {
    auto shape = joined.value.sizes().vec();
    for (size_t at = first + 1; at < first + count; ++at) shape[0] += views_[at].value.size(0);
    const auto unit = static_cast<size_t>(table_->rows()[first].unit);
    joined.value = unit_values_[unit].narrow(0, offsets_[first], product(shape)).view(shape);
    joined.gradient = unit_gradients_[unit].narrow(0, offsets_[first], product(shape)).view(shape);
  }
  weight_rows_.push_back(range);
  return &weights_.emplace_back(std::move(joined));
}

int64_t ParameterStore::elements() const {
  int64_t sum = 0;
  for (const at::Tensor& unit : unit_values_) sum += unit.numel();
  return sum;
}

void ParameterStore::begin_step() {
  for (Weight& weight : weights_) weight.gradient_written = false;
}

void ParameterStore::check_all_written() const {
  size_t covered = 0;
  for (size_t at = 0; at < weights_.size(); ++at) {
    const auto [first, last] = weight_rows_[at];
    covered += last - first;
    MUSTER_CHECK(weights_[at].gradient_written, "{} got no gradient in this step",
                 table_->rows()[first].name);
  }
  MUSTER_CHECK(covered == table_->rows().size(), "{} of {} parameters belong to a layer", covered,
               table_->rows().size());
}

size_t ParameterStore::index(const spec::ParameterRow& row) const {
  const auto at = static_cast<size_t>(&row - table_->rows().data());
  MUSTER_CHECK(at < views_.size(), "{} is a row of another table", row.name);
  return at;
}

}  // namespace muster::nn
