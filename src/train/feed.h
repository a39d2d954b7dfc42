// Micro-batches for one rank: which samples it takes, and their ids as tensors.
#pragma once
#include "data/dataset.h"
#include "nn/transformer.h"
#include "spec/config/job.h"
#include "spec/mesh/mesh.h"

namespace muster::train {

struct Loaded {
  nn::MicroBatch batch;
  int64_t tokens = 0;  // targets that count
};

// The global batch of a step is samples [(step - 1) B, step B). Data coordinate d takes the d-th of D equal
// parts, in order, and cuts it into micro-batches; a rank of the context axis keeps its own tokens of each
// sequence. The layout never changes which samples a step sees.
class Feed {
 public:
  // `dataset` null: shapes alone, for `meta`.
  Feed(const spec::Job& job, const spec::Mesh& mesh, int64_t rank, const data::Dataset* dataset);
  virtual ~Feed() = default;
  virtual Loaded load(nn::Executor& run, int64_t step, int64_t micro_batch) const;
  int64_t micro_batches() const { return micro_batches_; }

 private:
  using Windows = std::vector<std::vector<int32_t>>;
  Windows read(int64_t step, int64_t first_sample) const;
  std::vector<std::vector<spec::Stretch>> documents_of(const Windows& windows) const;
  const data::Dataset* dataset_;
  int64_t length_, global_batch_, micro_batch_size_, micro_batches_, first_, document_end_;
  nn::SequenceSplit split_;
  int64_t stream_share_, stream_shares_;
};

}  // namespace muster::train
