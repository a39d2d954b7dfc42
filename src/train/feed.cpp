#include "train/feed.h"

#include <algorithm>

namespace muster::train {

Feed::Feed(const spec::Job& job, const spec::Mesh& mesh, int64_t rank, const data::Dataset* dataset)
    : dataset_(dataset),
      length_(job.data.sequence_length),
      global_batch_(job.training.global_batch_size),
      micro_batch_size_(job.training.micro_batch_size),
      micro_batches_(spec::micro_batches(job)),
      first_(mesh.coordinate(rank, spec::Axis::data) * micro_batches_ * micro_batch_size_) {}

Loaded Feed::load(nn::Executor& run, int64_t step, int64_t micro_batch) const {
  const int64_t rows = micro_batch_size_ * length_;
  Loaded loaded;
  nn::MicroBatch& batch = loaded.batch;
  batch.length = length_;
  batch.first_sample = first_ + micro_batch * micro_batch_size_;
  batch.step = static_cast<uint64_t>(step);
  batch.ids_N = run.empty({rows}, nn::Category::input, at::kInt);
  batch.targets_N = run.empty({rows}, nn::Category::input, at::kInt);
  loaded.tokens = rows;
  run.run("load", {0, 2 * static_cast<int64_t>(batch.ids_N.nbytes())}, [&] {
    std::vector<int32_t> window(static_cast<size_t>(length_ + 1));
    const at::Tensor ids = at::empty({rows}, at::kInt), targets = at::empty({rows}, at::kInt);
    for (int64_t at = 0; at < micro_batch_size_; ++at) {
      dataset_->fill((step - 1) * global_batch_ + batch.first_sample + at, window);
      std::copy(window.begin(), window.end() - 1, ids.data_ptr<int32_t>() + at * length_);
      std::copy(window.begin() + 1, window.end(), targets.data_ptr<int32_t>() + at * length_);
    }
    batch.ids_N.copy_(ids);
    batch.targets_N.copy_(targets);
  });
  return loaded;
}

}  // namespace muster::train
