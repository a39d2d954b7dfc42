// The parameters of one rank: values and gradients in flat buffers, and the weights that layers see as views
// of them. A unit (the embeddings, a block, the final norm with the head) has one flat buffer of values.
// Gradients lie in buckets, each of whole units, so that a bucket is one message.
#pragma once
#include <deque>
#include <initializer_list>
#include <vector>

#include "nn/executor.h"
#include "nn/weight.h"
#include "spec/mesh/mesh.h"
#include "spec/model/parameter_table.h"

namespace muster::nn {

// Gradients of the units [first_unit, last_unit], complete once backward has left first_unit.
struct Bucket {
  int64_t first_unit = 0, last_unit = 0;
  at::Tensor gradient;
};

// A run of neighbouring parameters that the update treats alike.
struct Segment {
  at::Tensor value, gradient;
  bool is_matrix = false;
  bool is_split = false;  // over the tensor axis; else every rank of it holds the same
  int64_t copies = 1;     // split: neighbours on that axis that hold the same
};

class ParameterStore {
 public:
  // Allocates everything; buckets hold at least `bucket_bytes`, the first units of backward first.
  ParameterStore(const spec::ParameterTable& table, const spec::Mesh& mesh, const Executor& run,
                 int64_t bucket_bytes);

  const spec::ParameterTable& table() const { return *table_; }
  // The rows of a unit with these roles, which stand side by side, as one weight; null where the unit has
  // none.
  Weight* weight(int64_t unit, std::initializer_list<spec::Role> roles);
  Weight* weight(const spec::ParameterRow& row) { return weight_of(index(row), 1); }
  // One logical parameter's part on this rank.
  at::Tensor value(const spec::ParameterRow& row) const { return views_[index(row)].value; }
  at::Tensor gradient(const spec::ParameterRow& row) const { return views_[index(row)].gradient; }

  const std::vector<Bucket>& buckets() const {
    return buckets_;
  }  // in the order in which backward completes them
  const std::vector<Segment>& segments() const { return segments_; }
  int64_t elements() const;

  // Forgets the gradients of the last step.
  void begin_step();
  // Throws Bug naming a weight that got no gradient in this step.
  void check_all_written() const;

 private:
  size_t index(const spec::ParameterRow& row) const;
  Weight* weight_of(size_t first, size_t count);
  void make_buckets(const Executor& run, const std::vector<int64_t>& unit_elements, int64_t bucket_bytes);
  void make_views(const spec::Mesh& mesh);
  void make_segments(const spec::Mesh& mesh);

  const spec::ParameterTable* table_;
  std::vector<at::Tensor> unit_values_, unit_gradients_;
  std::vector<Bucket> buckets_;
  std::vector<Weight> views_;     // by row
  std::vector<int64_t> offsets_;  // of a row within its unit, in elements
  std::vector<Segment> segments_;
  std::deque<Weight> weights_;  // handed out; addresses stay
  std::vector<std::pair<size_t, size_t>> weight_rows_;
};

}  // namespace muster::nn
