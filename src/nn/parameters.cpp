#include "nn/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "device/storage.h"
#include "spec/mesh/local_shape.h"

namespace muster::nn {
namespace {

struct Flat {
  at::Tensor whole, piece;
};

// A flat buffer and this rank's piece of it. Where only the piece stays, the whole is a shape without memory.
Flat make_flat(const Executor& run, const Sharding& sharding, int64_t padded, Category category,
               at::ScalarType format, bool only_piece_stays) {
  Flat flat{run.empty({padded}, category, format), {}};
  const int64_t size = padded / sharding.size();
  if (!only_piece_stays) {
    flat.piece = flat.whole.narrow(0, sharding.rank() * size, size);
    return flat;
  }
  device::drop(flat.whole);
  flat.piece = run.empty({size}, category, format);
  return flat;
}

}  // namespace

ParameterStore::ParameterStore(const spec::ParameterTable& table, const spec::Mesh& mesh, const Executor& run,
                               int64_t bucket_bytes, Sharding sharding, Formats formats)
    : table_(&table), sharding_(sharding), formats_(formats) {
  Size size{std::vector<int64_t>(static_cast<size_t>(table.units())),
            bucket_bytes / static_cast<int64_t>(c10::elementSize(formats.gradients.value_or(run.dtype())))};
  for (const spec::ParameterRow& row : table.rows()) {
    int64_t& used = size.elements[static_cast<size_t>(row.unit)];
    offsets_.push_back(used);
    used += c10::multiply_integers(spec::local_shape(row, mesh));
  }
  make_buckets(run, size);
  make_views(mesh);
  make_segments(mesh);
}

void ParameterStore::make_buckets(const Executor& run, const Size& size) {
  unit_buckets_.resize(size.elements.size());
  int64_t last = table_->units() - 1, elements = 0;
  for (int64_t unit = last; unit >= 0; --unit) {
    elements += size.elements[static_cast<size_t>(unit)];
    if (elements < size.least_bucket && unit > 0) continue;
    add_bucket(run, unit, last, elements);
    last = unit - 1;
    elements = 0;
  }
  // From within a unit to within its bucket.
  std::vector<int64_t> before(size.elements.size());
  for (size_t unit = 1; unit < before.size(); ++unit)
    if (unit_buckets_[unit] == unit_buckets_[unit - 1])
      before[unit] = before[unit - 1] + size.elements[unit - 1];
  for (size_t row = 0; row < offsets_.size(); ++row)
    offsets_[row] += before[static_cast<size_t>(table_->rows()[row].unit)];
}

void ParameterStore::add_bucket(const Executor& run, int64_t first_unit, int64_t last_unit,
                                int64_t elements) {
  const int64_t peers = sharding_.size(), padded = (elements + peers - 1) / peers * peers;
  for (int64_t unit = first_unit; unit <= last_unit; ++unit)
    unit_buckets_[static_cast<size_t>(unit)] = buckets_.size();
  const Flat value = make_flat(run, sharding_, padded, Category::parameters, run.dtype(), sharding_.values);
  const Flat gradient = make_flat(run, sharding_, padded, Category::gradients,
                                  formats_.gradients.value_or(run.dtype()), sharding_.gradients);
  buckets_.push_back({first_unit, last_unit, value.whole, gradient.whole, value.piece, gradient.piece,
                      make_master(run, value.piece), padded - elements});
}

at::Tensor ParameterStore::make_master(const Executor& run, const at::Tensor& value_piece) const {
  if (!formats_.master) return value_piece;
  return run.empty(value_piece.sizes(), Category::master_parameters, *formats_.master);
}

void ParameterStore::round_masters(Executor& run) const {
  if (!formats_.master) return;
  for (const Bucket& bucket : buckets_)
    run.run("round", {0, bytes_of(bucket.master_piece) + bytes_of(bucket.value_piece)},
            [&] { at::Tensor(bucket.value_piece).copy_(bucket.master_piece); });
}

void ParameterStore::make_views(const spec::Mesh& mesh) {
  for (size_t row = 0; row < offsets_.size(); ++row)
    views_.push_back(view(row, spec::local_shape(table_->rows()[row], mesh)));
}

// What stands from a row on, as a weight of this shape.
Weight ParameterStore::view(size_t row, const std::vector<int64_t>& shape) const {
  Weight weight;
  weight.value = bucket(row).value.narrow(0, offsets_[row], c10::multiply_integers(shape)).view(shape);
  weight.gradient = bucket(row).gradient.narrow(0, offsets_[row], c10::multiply_integers(shape)).view(shape);
  weight.stored_in_out = table_->rows()[row].stored_in_out;
  return weight;
}

void ParameterStore::make_segments(const spec::Mesh& mesh) {
  const auto& rows = table_->rows();
  const auto is_split = [&](size_t row) { return spec::is_split(rows[row], mesh, spec::Axis::tensor); };
  const auto copies = [&](size_t row) { return spec::copies(rows[row], mesh, spec::Axis::tensor); };
  for (size_t first = 0; first < rows.size();) {
    size_t last = first;
    int64_t elements = 0;
    while (last < rows.size() && rows[last].unit == rows[first].unit &&
           rows[last].is_matrix == rows[first].is_matrix &&
           rows[last].is_linear() == rows[first].is_linear() && is_split(last) == is_split(first) &&
           copies(last) == copies(first))
      elements += views_[last++].value.numel();
    const size_t at = bucket_of(rows[first].unit);
    const FlatRange own = clipped(at, {offsets_[first], elements}, sharding_.rank());
    const int64_t begin = own.first - sharding_.rank() * buckets_[at].value_piece.numel();
    if (own.size > 0)
      segments_.push_back({buckets_[at].master_piece.narrow(0, begin, own.size),
                           buckets_[at].gradient_piece.narrow(0, begin, own.size), rows[first].is_matrix,
                           rows[first].is_linear(), is_split(first), copies(first)});
    first = last;
  }
}

// What a peer owns of a range of a bucket.
FlatRange ParameterStore::clipped(size_t bucket, FlatRange range, int64_t peer) const {
  const int64_t piece = buckets_[bucket].value_piece.numel();
  const int64_t first = std::clamp(range.first, peer * piece, (peer + 1) * piece);
  const int64_t last = std::clamp(range.first + range.size, peer * piece, (peer + 1) * piece);
  return {first, last - first};
}

FlatRange ParameterStore::owned(const spec::ParameterRow& row, int64_t peer) const {
  const size_t at = index(row);
  FlatRange range = clipped(bucket_of(row.unit), {offsets_[at], views_[at].value.numel()}, peer);
  range.first = range.size > 0 ? range.first - offsets_[at] : 0;
  return range;
}

at::Tensor ParameterStore::in_piece(const at::Tensor& piece, size_t row) const {
  const FlatRange own = owned(table_->rows()[row]);
  const int64_t begin = offsets_[row] + own.first - sharding_.rank() * piece.numel();
  return piece.narrow(0, own.size > 0 ? begin : 0, own.size);
}

at::Tensor ParameterStore::value_piece(const spec::ParameterRow& row) const {
  return in_piece(bucket(index(row)).value_piece, index(row));
}

at::Tensor ParameterStore::master_piece(const spec::ParameterRow& row) const {
  return in_piece(bucket(index(row)).master_piece, index(row));
}

at::Tensor ParameterStore::gradient_piece(const spec::ParameterRow& row) const {
  return in_piece(bucket(index(row)).gradient_piece, index(row));
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
  auto shape = views_[first].value.sizes().vec();
  for (size_t at = first + 1; at < first + count; ++at) shape[0] += views_[at].value.size(0);
  weight_rows_.push_back(range);
  return &weights_.emplace_back(view(first, shape));
}

void ParameterStore::begin_step() {
  for (Weight& weight : weights_) weight.gradient_written = false;
}

void ParameterStore::forget(const Bucket& bucket) {
  for (size_t at = 0; at < weights_.size(); ++at)
    if (&this->bucket(weight_rows_[at].first) == &bucket) weights_[at].gradient_written = false;
}

void ParameterStore::check_written(const Bucket& bucket) const {
  const auto& rows = table_->rows();
  size_t covered = 0;
  for (size_t at = 0; at < weights_.size(); ++at) {
    const auto [first, last] = weight_rows_[at];
    if (&this->bucket(first) != &bucket) continue;
    covered += last - first;
    MUSTER_CHECK(weights_[at].gradient_written, "{} got no gradient in this step", rows[first].name);
  }
  const auto expected = static_cast<size_t>(std::ranges::count_if(rows, [&](const spec::ParameterRow& row) {
    return row.unit >= bucket.first_unit && row.unit <= bucket.last_unit;
  }));
  MUSTER_CHECK(covered == expected, "{} of {} parameters of units {} to {} belong to a layer", covered,
               expected, bucket.first_unit, bucket.last_unit);
}

size_t ParameterStore::index(const spec::ParameterRow& row) const {
  const auto at = static_cast<size_t>(&row - table_->rows().data());
  MUSTER_CHECK(at < offsets_.size(), "{} is a row of another table", row.name);
  return at;
}

const Bucket& ParameterStore::bucket(size_t row) const {
  return buckets_[bucket_of(table_->rows()[row].unit)];
}

}  // namespace muster::nn
