#include "train/feed.h"

#include <algorithm>

namespace muster::train {

Feed::Feed(const spec::Job& job, const spec::Mesh& mesh, int64_t rank, const data::Dataset* dataset)
    : dataset_(dataset),
      length_(job.data.sequence_length),
      global_batch_(job.training.global_batch_size),
      micro_batch_size_(job.training.micro_batch_size),
      micro_batches_(spec::micro_batches(job)),
      first_(mesh.coordinate(rank, spec::Axis::data) * micro_batches_ * micro_batch_size_),
      document_end_(job.data.document_end),
      split_{job.layout.context_method, mesh.coordinate(rank, spec::Axis::context),
             mesh.size(spec::Axis::context)},
      stream_share_(job.layout.sequence_parallel ? mesh.coordinate(rank, spec::Axis::tensor) : 0),
      stream_shares_(job.layout.sequence_parallel ? job.layout.tensor : 1) {}

Loaded Feed::load(nn::Executor& run, int64_t step, int64_t micro_batch) const {
  const int64_t first_sample = first_ + micro_batch * micro_batch_size_;
  const Windows windows = read(step, first_sample);
  Loaded loaded;
  nn::MicroBatch& batch = loaded.batch;
  batch.positions = nn::make_positions(documents_of(windows), length_, first_sample, split_);
  nn::share_stream(batch.positions, stream_share_, stream_shares_);
  batch.step = static_cast<uint64_t>(step);
  const int64_t rows = micro_batch_size_ * batch.positions.length;
  batch.ids_N = run.empty({rows}, nn::Category::input, at::kInt);
  batch.targets_N = run.empty({rows}, nn::Category::input, at::kInt);
  loaded.tokens = rows;
  run.run("load", {0, 2 * static_cast<int64_t>(batch.ids_N.nbytes())}, [&] {
    const at::Tensor ids = at::empty({rows}, at::kInt), targets = at::empty({rows}, at::kInt);
    for (const nn::RowRun& at : batch.positions.runs) {
      // Each token has the one after it as its target, whichever rank has that one's row.
      const auto& window = windows[static_cast<size_t>(at.token / length_ - first_sample)];
      const auto from = window.begin() + at.token % length_;
      std::copy(from, from + at.rows, ids.data_ptr<int32_t>() + at.row);
      std::copy(from + 1, from + 1 + at.rows, targets.data_ptr<int32_t>() + at.row);
    }
    batch.ids_N.copy_(ids);
    batch.targets_N.copy_(targets);
  });
  return loaded;
}

// Whole sequences, each with the id after it. Empty for a rehearsal.
Feed::Windows Feed::read(int64_t step, int64_t first_sample) const {
  Windows windows(static_cast<size_t>(micro_batch_size_));
  for (size_t at = 0; dataset_ && at < windows.size(); ++at) {
    windows[at].resize(static_cast<size_t>(length_ + 1));
    dataset_->fill((step - 1) * global_batch_ + first_sample + static_cast<int64_t>(at), windows[at]);
  }
  return windows;
}

// The end of a document is its last token.
std::vector<std::vector<spec::Stretch>> Feed::documents_of(const Windows& windows) const {
  std::vector<std::vector<spec::Stretch>> documents;
  for (const std::vector<int32_t>& window : windows) {
    std::vector<spec::Stretch>& own = documents.emplace_back();
    int64_t first = 0;
    for (int64_t at = 0; document_end_ >= 0 && at + 1 < std::min<int64_t>(length_, std::ssize(window)); ++at)
      if (window[static_cast<size_t>(at)] == document_end_) {
        own.push_back({first, at + 1 - first});
        first = at + 1;
      }
    own.push_back({first, length_ - first});
  }
  return documents;
}

}  // namespace muster::train
