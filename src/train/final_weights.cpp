#include "train/final_weights.h"

#include <algorithm>

#include "checkpoint/hugging_face.h"

namespace muster::train {
namespace {

constexpr int64_t kDone = -1;

// The ranks that share rank 0's copy of the state, in its place of the tensor axis.
bool shares_with_rank_0(Rank& rank, int64_t number) {
  if (!rank.parameters().sharding().peers) return number == 0;
  return std::ranges::count(rank.mesh().group(0, spec::Span::shard), number) > 0;
}

// Which row is wanted next: the writer asks in the order of its files, and the others follow. First those
// that share its place of the tensor axis hear of it, then each tells its tensor group.
int64_t agree_on_row(Rank& rank, int64_t row) {
  const at::Tensor wanted = at::full({1}, row, at::kLong).to(rank.executor().device());
  comm::Communicator* peers = rank.parameters().sharding().peers;
  if (peers && shares_with_rank_0(rank, rank.number())) peers->broadcast(wanted, 0).wait();
  rank.groups().on(spec::Axis::tensor).broadcast(wanted, 0).wait();
  return wanted.item<int64_t>();
}

// What earlier ends of a resumed run left: half-written folders go at once, the last weights when the new
// ones are there.
fs::path set_aside_weights(const RunFolder& folder) {
  const std::vector<fs::directory_entry> entries(fs::directory_iterator(folder.path), {});
  for (const fs::directory_entry& entry : entries)
    if (entry.path().filename().string().starts_with("weights.new-")) fs::remove_all(entry.path());
  const fs::path old = folder.path / "weights.old";
  if (fs::exists(folder.weights())) {
    fs::remove_all(old);
    fs::rename(folder.weights(), old);
  }
  return old;
}

at::Tensor gather_row(Rank& rank, int64_t index) {
  const spec::ParameterRow& row = rank.table().rows().at(static_cast<size_t>(index));
  return rank.whole(row, rank.parameters().value_piece(row));
}

}  // namespace

void save_final_weights(Rank& rank, const spec::Job& job, const RunFolder& folder) {
  MUSTER_CHECK(rank.number() == 0, "rank {} writes the weights", rank.number());
  const auto whole = [&](const spec::ParameterRow& wanted) {
    const spec::ParameterRow& row = rank.table().row(wanted.name);
    return gather_row(rank, agree_on_row(rank, &row - rank.table().rows().data())).cpu();
  };
  const fs::path old = set_aside_weights(folder);
  checkpoint::save_weights(folder.weights(), job.model, rank.executor().dtype(), whole);
  agree_on_row(rank, kDone);
  if (fs::is_regular_file(job.data.tokenizer))
    fs::copy_file(job.data.tokenizer, folder.weights() / "tokenizer.json");
  fs::remove_all(old);
}

void hand_over_weights(Rank& rank) {
  if (!shares_with_rank_0(rank, rank.groups().on(spec::Axis::tensor).ranks().front())) return;
  for (int64_t row = agree_on_row(rank, kDone); row != kDone; row = agree_on_row(rank, kDone))
    gather_row(rank, row);
}

}  // namespace muster::train
