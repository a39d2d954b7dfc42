#include "data/files/megatron.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/units.h"

namespace muster::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kVersion = 1;
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
// Bytes of the index for a sequence: its length and its position.
constexpr int64_t kBytesPerSequence = 4 + 8;
constexpr const char* kRemedy = "write the pair again, or name the .bin and .idx that belong together";

struct TypeCode {
  uint8_t code;
  IdType type;
};
constexpr TypeCode kTypes[] = {{1, IdType::u8}, {4, IdType::u32}, {5, IdType::u64}, {8, IdType::u16}};

struct Header {
  IdType type;
  int64_t sequences;
  int64_t bounds;
};

template <class T>
T value_at(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class T>
T value_in(const File& file, int64_t offset) {
  T value;
  file.read_at(&value, sizeof(T), offset);
  return value;
}

IdType type_of(const Place& idx, uint8_t code) {
  for (const TypeCode& known : kTypes)
    if (known.code == code) return known.type;
  refuse(idx, fmt::format("has type code {}, which stands for no type of ids", code), kRemedy);
}

Header read_header(const Place& idx, const File& file) {
  if (file.size() < kHeaderBytes)
    refuse(idx, fmt::format("has {} bytes, and the header alone has {}", file.size(), kHeaderBytes), kRemedy);
  char bytes[kHeaderBytes];
  file.read_at(bytes, sizeof bytes, 0);
  if (std::string_view(bytes, kMagic.size()) != kMagic)
    refuse(idx, "does not begin with Megatron's magic \"MMIDIDX\"", kRemedy);
  if (const auto version = value_at<uint64_t>(bytes + 9); version != kVersion)
    refuse(idx, fmt::format("is of version {}, and version {} is read", version, kVersion), kRemedy);
  const auto sequences = value_at<uint64_t>(bytes + 18), bounds = value_at<uint64_t>(bytes + 26);
  const auto size = static_cast<uint64_t>(file.size());
  // Divided, not multiplied: a header that lies must not overflow.
  if (sequences > size / kBytesPerSequence || bounds > size / 8 || bounds < 1)
    refuse(idx,
           fmt::format("names {} sequences and {} document bounds, more than its {} bytes hold", sequences,
                       bounds, size),
           kRemedy);
  return {type_of(idx, static_cast<uint8_t>(bytes[17])), static_cast<int64_t>(sequences),
          static_cast<int64_t>(bounds)};
}

void check_index_size(const Place& idx, const File& file, const Header& header) {
  const int64_t expected = kHeaderBytes + header.sequences * kBytesPerSequence + header.bounds * 8;
  if (file.size() == expected || file.size() == expected + header.sequences) return;
  refuse(idx,
         fmt::format("has {} bytes, and its {} sequences and {} document bounds need {}", file.size(),
                     header.sequences, header.bounds, expected),
         kRemedy);
}

int64_t positions_at(const Header& header) {
  return kHeaderBytes + header.sequences * 4;
}
int64_t bounds_at(const Header& header) {
  return kHeaderBytes + header.sequences * kBytesPerSequence;
}

// The end of the last sequence, by the index.
int64_t bin_bytes(const Place& idx, const File& file, const Header& header) {
  if (header.sequences == 0) return 0;
  const int64_t last = header.sequences - 1;
  const auto length = value_in<int32_t>(file, kHeaderBytes + last * 4);
  const auto position = value_in<int64_t>(file, positions_at(header) + last * 8);
  if (length < 0 || position < 0 || position > INT64_MAX / 2)
    refuse(idx, fmt::format("puts {} ids at byte {} for sequence {}", length, position, last), kRemedy);
  return position + length * bytes_of(header.type);
}

struct Opened {
  File bin, idx;
  Header header;
};

Opened open_pair(const MegatronPair& pair) {
  File bin = open_place(pair.bin), idx = open_place(pair.idx);
  const Header header = read_header(pair.idx, idx);
  check_index_size(pair.idx, idx, header);
  const int64_t expected = bin_bytes(pair.idx, idx, header);
  if (bin.size() != expected)
    refuse(pair.bin,
           fmt::format("has {} bytes, and {} describes {}", bin.size(), pair.idx.path.filename().string(),
                       expected),
           kRemedy);
  return {std::move(bin), std::move(idx), header};
}

// Calls `see(index, value)` for `count` numbers from byte `offset`.
template <class T, class See>
void for_each(const File& file, int64_t offset, int64_t count, See&& see) {
  std::vector<T> values;
  constexpr int64_t kMost = 1 << 16;
  for (int64_t done = 0; done < count; done += std::ssize(values)) {
    values.resize(static_cast<size_t>(std::min(kMost, count - done)));
    file.read_at(values.data(), values.size() * sizeof(T), offset + done * static_cast<int64_t>(sizeof(T)));
    for (size_t at = 0; at < values.size(); ++at) see(done + static_cast<int64_t>(at), values[at]);
  }
}

// Lengths and positions are far apart in the index: both are read a stretch at a time.
void check_positions(const Place& place, const Opened& pair) {
  Positions expected(pair.header.type);
  std::vector<int32_t> lengths;
  for_each<int64_t>(
      pair.idx, positions_at(pair.header), pair.header.sequences, [&](int64_t at, int64_t position) {
        constexpr int64_t kStretch = 1 << 16;
        if (at % kStretch == 0) {
          lengths.resize(static_cast<size_t>(std::min(kStretch, pair.header.sequences - at)));
          pair.idx.read_at(lengths.data(), lengths.size() * 4, kHeaderBytes + at * 4);
        }
        const int32_t length = lengths[static_cast<size_t>(at % kStretch)];
        if (length < 0 || position != expected.next())
          refuse(place,
                 fmt::format("puts sequence {} of {} ids at byte {}, and the one before ends at {}", at,
                             length, position, expected.next()),
                 kRemedy);
        expected.add(length);
      });
}

void check_documents(const Place& place, const Opened& pair) {
  int64_t before = 0;
  for_each<int64_t>(pair.idx, bounds_at(pair.header), pair.header.bounds, [&](int64_t at, int64_t bound) {
    const bool first = at == 0, last = at == pair.header.bounds - 1;
    if (bound < before || bound > pair.header.sequences || (first && bound != 0) ||
        (last && bound != pair.header.sequences))
      refuse(place,
             fmt::format("lets document {} begin at sequence {} of {}, after one at {}", at, bound,
                         pair.header.sequences, before),
             kRemedy);
    before = bound;
  });
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint8_t code_of(IdType type) {
  for (const TypeCode& known : kTypes)
    if (known.type == type) return known.code;
  return 0;
}

}  // namespace

MegatronPair megatron_pair(const Place& place) {
  std::string prefix = place.path.string();
  for (const char* end : {".bin", ".idx"})
    if (prefix.ends_with(end)) prefix.resize(prefix.size() - 4);
  return {{prefix + ".bin", place.field}, {prefix + ".idx", place.field}};
}

TokenFile open_megatron(const Place& place) {
  Opened pair = open_pair(megatron_pair(place));
  const int64_t ids = pair.bin.size() / bytes_of(pair.header.type);
  return {std::move(pair.bin), pair.header.type, 0, ids};
}

MegatronSummary check_megatron(const Place& place) {
  const MegatronPair files = megatron_pair(place);
  const Opened pair = open_pair(files);
  check_positions(files.idx, pair);
  check_documents(files.idx, pair);
  return {pair.header.type, pair.bin.size() / bytes_of(pair.header.type), pair.header.sequences,
          pair.header.bounds - 1};
}

MegatronWriter::MegatronWriter(const fs::path& prefix, int64_t largest_id)
    : prefix_(prefix), bin_(prefix.string() + ".bin", narrowest(largest_id, IdType::u16)) {}

void MegatronWriter::end_document() {
  const int64_t length = bin_.ids() - document_begin_;
  if (length > INT32_MAX)
    throw WorldError(WorldError::Kind::data,
                     fmt::format("a document of {} ids: Megatron's index counts to 2^31 - 1", length));
  lengths_.push_back(static_cast<int32_t>(length));
  document_begin_ = bin_.ids();
}

std::string MegatronWriter::index() const {
  std::string out(kMagic);
  put(out, kVersion);
  put(out, code_of(bin_.type()));
  put(out, uint64_t{lengths_.size()});
  put(out, uint64_t{lengths_.size() + 1});
  for (const int32_t length : lengths_) put(out, length);
  Positions positions(bin_.type());
  for (const int32_t length : lengths_) {
    put(out, positions.next());
    positions.add(length);
  }
  for (int64_t document = 0; document <= documents(); ++document) put(out, document);
  return out;
}

void MegatronWriter::commit() {
  bin_.commit();
  write_text(prefix_.string() + ".idx", index());
}

}  // namespace muster::data
