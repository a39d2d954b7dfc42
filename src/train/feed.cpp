#include "train/feed.h"

#include <algorithm>
#include <utility>

namespace muster::train {

Feed::Feed(const spec::Job& job, const spec::Mesh& mesh, int64_t rank, const data::Dataset* dataset)
    : dataset_(dataset),
      length_(job.data.sequence_length),
      global_batch_(job.training.global_batch_size),
      micro_batch_size_(job.training.micro_batch_size),
      micro_batches_(spec::micro_batches(job)),
      first_(mesh.coordinate(rank, spec::Axis::data) * micro_batches_ * micro_batch_size_),
      split_{job.layout.context_method, mesh.coordinate(rank, spec::Axis::context),
             mesh.size(spec::Axis::context)},
      stream_share_(job.layout.sequence_parallel ? mesh.coordinate(rank, spec::Axis::tensor) : 0),
      stream_shares_(job.layout.sequence_parallel ? job.layout.tensor : 1) {}

Loaded Feed::load(nn::Executor& run, int64_t step, int64_t micro_batch) const {
  const int64_t first_sample = first_ + micro_batch * micro_batch_size_;
  const std::vector<std::vector<spec::Stretch>> documents(static_cast<size_t>(micro_batch_size_),
                                                          {{0, length_}});
  Loaded loaded;
  nn::MicroBatch& batch = loaded.batch;
  batch.positions = nn::make_positions(documents, length_, first_sample, split_);
  nn::share_stream(batch.positions, stream_share_, stream_shares_);
  batch.step = static_cast<uint64_t>(step);
  const int64_t rows = micro_batch_size_ * batch.positions.length;
  batch.ids_N = run.empty({rows}, nn::Category::input, at::kInt);
  batch.targets_N = run.empty({rows}, nn::Category::input, at::kInt);
  loaded.tokens = rows;
  run.run("load", {0, 2 * static_cast<int64_t>(batch.ids_N.nbytes())}, [&] {
    const at::Tensor ids = at::empty({rows}, at::kInt), targets = at::empty({rows}, at::kInt);
    fill(batch.positions, step, ids.data_ptr<int32_t>(), targets.data_ptr<int32_t>());
    batch.ids_N.copy_(ids);
    batch.targets_N.copy_(targets);
  });
  return loaded;
}

// The tokens of this rank's rows, each with the token after it as its target, whoever has that one's row.
void Feed::fill(const nn::Positions& positions, int64_t step, int32_t* ids, int32_t* targets) const {
  std::vector<int32_t> window(static_cast<size_t>(length_ + 1));
  int64_t sample = -1;
  for (const nn::RowRun& at : positions.runs) {
    if (std::exchange(sample, at.token / length_) != at.token / length_)
      dataset_->fill((step - 1) * global_batch_ + sample, window);
    const auto from = window.begin() + at.token % length_;
    std::copy(from, from + at.rows, ids + at.row);
    std::copy(from + 1, from + 1 + at.rows, targets + at.row);
  }
}

}  // namespace muster::train
