#include "checkpoint/set/set_reader.h"

#include <algorithm>

namespace muster::checkpoint {
namespace {

// A piece of a file, and memory that it has elements for.
struct Delivery {
  const ManifestPiece* source;
  DType dtype;
  const Destination* to;
  int64_t end() const { return source->offset + source->piece.elements() * bytes_of(dtype); }
};

// What each file gives, in the order of the file.
std::map<int64_t, std::vector<Delivery>> by_file(const std::vector<SetReader::Order>& orders) {
  std::map<int64_t, std::vector<Delivery>> files;
  for (const SetReader::Order& order : orders)
    for (const ManifestPiece& source : order.tensor->pieces)
      if (share(source.piece, order.to.piece))
        files[source.file].push_back({&source, order.tensor->dtype, &order.to});
  for (auto& [file, pieces] : files)
    std::ranges::sort(pieces, {}, [](const Delivery& delivery) { return delivery.source->offset; });
  return files;
}

// Delivers what of a piece lies in the bytes [first, last) of its file; `chunk` gives those bytes, and is
// asked for nothing that nobody here holds.
template <class Chunk>
void deliver_part(const Delivery& delivery, int64_t first, int64_t last, const Chunk& chunk) {
  const int64_t width = bytes_of(delivery.dtype), offset = delivery.source->offset;
  const int64_t from = std::max(first, offset), to = std::min(last, delivery.end());
  if (from >= to) return;
  const spec::Piece part = delivery.source->piece.narrow((from - offset) / width, (to - offset) / width);
  if (!share(part, delivery.to->piece)) return;
  const std::string_view bytes = chunk();
  deliver(part, delivery.dtype,
          bytes.substr(static_cast<size_t>(from - first), static_cast<size_t>(to - from)), *delivery.to);
}

}  // namespace

// The pieces of a file are sorted, so that those which end before a chunk are passed over once.
void SetReader::read(const std::vector<Order>& orders) {
  const int64_t chunk_bytes = manifest_->chunk_bytes;
  for (const auto& [file, pieces] : by_file(orders)) {
    ShardReader& reader = open(file);
    const int64_t file_bytes = manifest_->files[static_cast<size_t>(file)].bytes;
    size_t passed = 0;
    for (int64_t index = pieces.front().source->offset / chunk_bytes;
         index < reader.chunks() && passed < pieces.size(); ++index) {
      const int64_t first = index * chunk_bytes, last = std::min(file_bytes, first + chunk_bytes);
      while (passed < pieces.size() && pieces[passed].end() <= first) ++passed;
      for (size_t at = passed; at < pieces.size() && pieces[at].source->offset < last; ++at)
        deliver_part(pieces[at], first, last, [&] { return reader.chunk(index); });
    }
  }
}

ShardReader& SetReader::open(int64_t file) {
  const auto known = std::ranges::find(held_, file, [](const auto& held) { return held.first; });
  if (known != held_.end()) {
    held_.splice(held_.begin(), held_, known);
    return held_.front().second;
  }
  if (held_.size() == most_held_) held_.pop_back();
  const ManifestFile& entry = manifest_->files[static_cast<size_t>(file)];
  held_.emplace_front(file, ShardReader(folder_ / entry.name, entry, manifest_->chunk_bytes));
  return held_.front().second;
}

}  // namespace muster::checkpoint
