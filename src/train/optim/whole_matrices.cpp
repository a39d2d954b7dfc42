#include "train/optim/whole_matrices.h"

#include <algorithm>

#include "base/error.h"
#include "spec/mesh/local_shape.h"

namespace muster::train {
namespace {

using Counts = std::vector<int64_t>;
using Pairs = std::vector<std::pair<at::Tensor, at::Tensor>>;

int64_t sum(const Counts& counts) {
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  return total;
}

int64_t bytes_of(const Pairs& pairs) {
  int64_t bytes = 0;
  for (const auto& [one, other] : pairs) bytes += nn::bytes_of(one, 2);
  return bytes;
}

void copy_to_second(nn::Executor& run, const Pairs& pairs) {
  run.run("copy", {0, bytes_of(pairs)}, [&] {
    for (const auto& [from, to] : pairs) at::Tensor(to).copy_(from);
  });
}

void copy_to_first(nn::Executor& run, const Pairs& pairs) {
  run.run("copy", {0, bytes_of(pairs)}, [&] {
    for (const auto& [to, from] : pairs) at::Tensor(to).copy_(from);
  });
}

// Hands out what lies side by side in something flat.
class Cursor {
 public:
  explicit Cursor(at::Tensor flat) : flat_(std::move(flat)) {}
  at::Tensor next(int64_t elements) {
    const int64_t first = at_;
    at_ += elements;
    return flat_.narrow(0, first, elements);
  }

 private:
  at::Tensor flat_;
  int64_t at_ = 0;
};

}  // namespace

WholeMatrices::WholeMatrices(const nn::ParameterStore& parameters, const spec::Mesh& mesh,
                             comm::Communicator& copies, comm::Communicator& tensor)
    : parameters_(&parameters), mesh_(&mesh), copies_(&copies), tensor_(&tensor) {
  for (const spec::ParameterRow& row : parameters.table().rows()) {
    if (!row.is_linear()) continue;
    MUSTER_CHECK(!row.placement[spec::Axis::tensor].pads, "{} has padding", row.name);
    rows_.push_back(&row);
  }
  std::ranges::stable_sort(rows_, std::ranges::greater(), &spec::ParameterRow::elements);
}

void WholeMatrices::apply(nn::Executor& run, const Transform& transform) const {
  const int64_t copies = copies_->size(), hands = (std::ssize(rows_) + hand_size() - 1) / hand_size();
  const auto buffer_of = [&](const Hand& hand) {
    return run.empty({piece_elements(hand, parameters_->sharding().rank())}, nn::Category::communication,
                     parameters_->gradient_format());
  };
  for (int64_t first = 0; first < hands; first += copies) {
    const Hand mine = hand(first + copies_->rank());
    const at::Tensor own = buffer_of(mine);
    copy_to_first(run, pieces_and_gradients(own, mine));
    transform_pieces(run, own, mine, transform);
    for (int64_t copy = 0; copy < copies && first + copy < hands; ++copy) {
      const bool is_mine = copy == copies_->rank();
      const Hand theirs = is_mine ? mine : hand(first + copy);
      const at::Tensor pieces = is_mine ? own : buffer_of(theirs);
      if (pieces.numel() > 0) copies_->broadcast(pieces, copy).wait();
      copy_to_second(run, pieces_and_gradients(pieces, theirs));
    }
  }
}

WholeMatrices::Hand WholeMatrices::hand(int64_t number) const {
  const int64_t rows = std::ssize(rows_), first = std::min(number * hand_size(), rows);
  return Hand(rows_.begin() + first, rows_.begin() + std::min(first + hand_size(), rows));
}

WholeMatrices::Hand WholeMatrices::of_sharer(const Hand& hand, int64_t sharer) const {
  const int64_t rows = std::ssize(hand), first = std::min(sharer * tensor_->size(), rows);
  return Hand(hand.begin() + first, hand.begin() + std::min(first + tensor_->size(), rows));
}

int64_t WholeMatrices::part_elements(const spec::ParameterRow& row) const {
  return parameters_->value(row).numel();
}

int64_t WholeMatrices::piece_elements(const Hand& rows, int64_t sharer) const {
  int64_t elements = 0;
  for (const spec::ParameterRow* row : rows) elements += parameters_->owned(*row, sharer).size;
  return elements;
}

Pairs WholeMatrices::pieces_and_gradients(const at::Tensor& pieces, const Hand& hand) const {
  Pairs pairs;
  Cursor cursor(pieces);
  for (const spec::ParameterRow* row : hand) {
    const at::Tensor gradient = parameters_->gradient_piece(*row);
    pairs.emplace_back(cursor.next(gradient.numel()), gradient);
  }
  return pairs;
}

Pairs WholeMatrices::pieces_and_parts(const at::Tensor& pieces, const at::Tensor& parts,
                                      const Hand& rows) const {
  Pairs pairs;
  Cursor from(pieces);
  for (int64_t sharer = 0; sharer < sharers(); ++sharer) {
    Cursor to(parts);
    for (const spec::ParameterRow* row : rows) {
      const nn::FlatRange own = parameters_->owned(*row, sharer);
      const at::Tensor part = to.next(part_elements(*row));
      pairs.emplace_back(from.next(own.size), part.narrow(0, own.first, own.size));
    }
  }
  return pairs;
}

// Where neighbours hold the same slice, the last one's goes in; on the way back each gets its own.
Pairs WholeMatrices::parts_and_whole(const at::Tensor& parts, const at::Tensor& whole,
                                     const spec::ParameterRow& row) const {
  Pairs pairs;
  Cursor cursor(parts);
  for (int64_t rank : tensor_->ranks()) {
    const at::Tensor part = cursor.next(part_elements(row)).view(spec::local_shape(row, *mesh_));
    const spec::LocalPart place = spec::local_part(row, *mesh_, rank);
    for (const spec::IndexRun& run : place.runs)
      pairs.emplace_back(part.narrow(place.dim, run.local, run.size),
                         whole.narrow(place.dim, run.global, run.size));
  }
  return pairs;
}

void WholeMatrices::transform_pieces(nn::Executor& run, const at::Tensor& pieces, const Hand& hand,
                                     const Transform& transform) const {
  if (hand.empty()) return;
  comm::Communicator* peers = parameters_->sharding().peers;
  if (!peers || peers->size() == 1) return transform_parts(run, pieces, hand, transform);
  const Hand rows = of_sharer(hand, peers->rank());
  Counts sent, received, elements;
  for (int64_t sharer = 0; sharer < peers->size(); ++sharer) {
    sent.push_back(piece_elements(of_sharer(hand, sharer), peers->rank()));
    received.push_back(piece_elements(rows, sharer));
  }
  for (const spec::ParameterRow* row : rows) elements.push_back(part_elements(*row));
  const at::ScalarType format = pieces.scalar_type();
  const at::Tensor all_pieces = run.empty({sum(received)}, nn::Category::communication, format);
  const at::Tensor parts = run.empty({sum(elements)}, nn::Category::communication, format);
  const Pairs pairs = pieces_and_parts(all_pieces, parts, rows);
  peers->all_to_all(all_pieces, pieces, received, sent).wait();
  copy_to_second(run, pairs);
  transform_parts(run, parts, rows, transform);
  copy_to_first(run, pairs);
  peers->all_to_all(pieces, all_pieces, sent, received).wait();
}

void WholeMatrices::transform_parts(nn::Executor& run, const at::Tensor& parts, const Hand& rows,
                                    const Transform& transform) const {
  if (rows.empty()) return;
  if (tensor_->size() == 1) return transform(parts.view(rows.front()->shape));
  const bool has_one = tensor_->rank() < std::ssize(rows);
  Counts sent(static_cast<size_t>(tensor_->size())), received(sent.size());
  for (size_t at = 0; at < rows.size(); ++at) sent[at] = part_elements(*rows[at]);
  const spec::ParameterRow* row = has_one ? rows[static_cast<size_t>(tensor_->rank())] : nullptr;
  if (row) std::ranges::fill(received, part_elements(*row));
  const at::ScalarType format = parts.scalar_type();
  const at::Tensor all_parts = run.empty({sum(received)}, nn::Category::communication, format);
  tensor_->all_to_all(all_parts, parts, received, sent).wait();
  if (row) {
    const at::Tensor whole = run.empty(row->shape, nn::Category::communication, format);
    const Pairs pairs = parts_and_whole(all_parts, whole, *row);
    copy_to_second(run, pairs);
    transform(whole);
    copy_to_first(run, pairs);
  }
  tensor_->all_to_all(parts, all_parts, sent, received).wait();
}

}  // namespace muster::train
