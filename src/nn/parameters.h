// The parameters of one rank: values and gradients in flat buffers, and the weights that layers see as views
// of them. The units (the embeddings, a block, the final norm with the head) lie in buckets, each of whole
// units, so that a bucket is one message. Ranks that share a copy of the state own a piece of each bucket,
// all pieces equal (Rajbhandari et al. 2020, "ZeRO", section 5).
#pragma once
#include <deque>
#include <initializer_list>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "nn/executor.h"
#include "nn/weight.h"
#include "spec/mesh/mesh.h"
#include "spec/model/parameter_table.h"

namespace muster::nn {

// Who shares one copy of the state, and what of it comes and goes whole while only pieces stay. Without
// peers, this rank owns all.
struct Sharding {
  comm::Communicator* peers = nullptr;
  bool gradients = false;  // whole from backward's first write to the reduction
  bool values = false;     // whole from a gather to the end of a use

  int64_t size() const { return peers ? peers->size() : 1; }
  int64_t rank() const { return peers ? peers->rank() : 0; }
};

// Values and gradients of the units [first_unit, last_unit], complete once backward has left first_unit.
// Wholes are padded to a multiple of the peers; a piece is a view of a whole that stays, or stands alone.
struct Bucket {
  int64_t first_unit = 0, last_unit = 0;
  at::Tensor value, gradient;              // [padded]; where they come and go, dropped at first
  at::Tensor value_piece, gradient_piece;  // [padded / peers]: this rank's
  at::Tensor master_piece;                 // of the same elements, wider; the value piece where there is none
  int64_t padding = 0;                     // elements of the whole that stand for nothing, at its end
};

// A run of neighbouring parameters that the update treats alike, as far as this rank owns it.
struct Segment {
  at::Tensor master, gradient;  // master: what the update writes
  bool is_matrix = false;
  bool is_linear = false;
  bool is_split = false;  // over the tensor axis; else every rank of it holds the same
  int64_t copies = 1;     // split: neighbours on that axis that hold the same
};

// Elements [first, first + size) of something flat.
struct FlatRange {
  int64_t first = 0, size = 0;
};

// What stands beside the values, which have the executor's format.
struct Formats {
  std::optional<at::ScalarType> gradients = {};  // as the values where not given
  // Master parameters (Micikevicius et al. 2018, "Mixed precision training", section 3.1): of each piece a
  // copy that the update writes, and of which the value is the rounding to nearest.
  std::optional<at::ScalarType> master = {};
};

class ParameterStore {
 public:
  // Allocates everything; buckets hold at least `bucket_bytes`, the first units of backward first.
  ParameterStore(const spec::ParameterTable& table, const spec::Mesh& mesh, const Executor& run,
                 int64_t bucket_bytes, Sharding sharding = {}, Formats formats = {});

  const spec::ParameterTable& table() const { return *table_; }
  const Sharding& sharding() const { return sharding_; }
  // The rows of a unit with these roles, which stand side by side, as one weight; null where the unit has
  // none.
  Weight* weight(int64_t unit, std::initializer_list<spec::Role> roles);
  Weight* weight(const spec::ParameterRow& row) { return weight_of(index(row), 1); }
  // One logical parameter's part on this rank, whole: there while its bucket is.
  at::Tensor value(const spec::ParameterRow& row) const { return views_[index(row)].value; }
  at::Tensor gradient(const spec::ParameterRow& row) const { return views_[index(row)].gradient; }
  // What `peer` owns of that part, flattened; and what this rank owns, 1-D and perhaps empty.
  FlatRange owned(const spec::ParameterRow& row, int64_t peer) const;
  FlatRange owned(const spec::ParameterRow& row) const { return owned(row, sharding_.rank()); }
  at::Tensor value_piece(const spec::ParameterRow& row) const;
  at::Tensor master_piece(const spec::ParameterRow& row) const;
  at::Tensor gradient_piece(const spec::ParameterRow& row) const;

  const std::vector<Bucket>& buckets() const {
    return buckets_;
  }  // in the order in which backward completes them
  size_t bucket_of(int64_t unit) const { return unit_buckets_[static_cast<size_t>(unit)]; }
  const std::vector<Segment>& segments() const { return segments_; }
  at::ScalarType gradient_format() const { return buckets_.front().gradient.scalar_type(); }

  // After the masters were written: the value pieces become their rounding. Nothing without masters.
  void round_masters(Executor& run) const;

  // Forgets the gradients of the last step, or those of one bucket.
  void begin_step();
  void forget(const Bucket& bucket);
  // Throws Bug naming a weight of the bucket that got no gradient.
  void check_written(const Bucket& bucket) const;

 private:
  struct Size {
    std::vector<int64_t> elements;  // by unit
    int64_t least_bucket = 0;       // elements
  };
  size_t index(const spec::ParameterRow& row) const;
  const Bucket& bucket(size_t row) const;
  at::Tensor in_piece(const at::Tensor& piece, size_t row) const;
  FlatRange clipped(size_t bucket, FlatRange range, int64_t peer) const;
  Weight* weight_of(size_t first, size_t count);
  void make_buckets(const Executor& run, const Size& size);
  void add_bucket(const Executor& run, int64_t first_unit, int64_t last_unit, int64_t elements);
  at::Tensor make_master(const Executor& run, const at::Tensor& value_piece) const;
  void make_views(const spec::Mesh& mesh);
  void make_segments(const spec::Mesh& mesh);
  Weight view(size_t row, const std::vector<int64_t>& shape) const;

  const spec::ParameterTable* table_;
  Sharding sharding_;
  Formats formats_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> unit_buckets_;  // by unit
  std::vector<Weight> views_;         // by row
  std::vector<int64_t> offsets_;      // of a row within its bucket, in elements
  std::vector<Segment> segments_;
  std::deque<Weight> weights_;  // handed out; addresses stay
  std::vector<std::pair<size_t, size_t>> weight_rows_;
};

}  // namespace muster::nn
