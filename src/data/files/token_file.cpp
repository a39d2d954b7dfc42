#include "data/files/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/hash.h"

namespace muster::data {
namespace {

// Calls `body` with a value of the C++ type that `type` names.
template <class Body>
decltype(auto) with_type(IdType type, Body&& body) {
  switch (type) {
    case IdType::u8:
      return body(uint8_t{});
    case IdType::u16:
      return body(uint16_t{});
    case IdType::u32:
      return body(uint32_t{});
    case IdType::u64:
      break;
  }
  return body(uint64_t{});
}

template <class Id>
std::span<const Id> as(std::span<const char> bytes) {
  return {reinterpret_cast<const Id*>(bytes.data()), bytes.size() / sizeof(Id)};
}

// A plain loop that compilers turn into vector maxima.
template <class Id>
Id largest_of(std::span<const Id> ids) {
  Id largest = 0;
  for (const Id id : ids) largest = id > largest ? id : largest;
  return largest;
}

uint64_t largest_of(IdType type, std::span<const char> bytes) {
  return with_type(type, [&](auto id) { return uint64_t{largest_of(as<decltype(id)>(bytes))}; });
}

int64_t first_at_least(IdType type, std::span<const char> bytes, uint64_t limit) {
  return with_type(type, [&](auto zero) {
    const auto ids = as<decltype(zero)>(bytes);
    return std::find_if(ids.begin(), ids.end(), [&](auto id) { return id >= limit; }) - ids.begin();
  });
}

void widen(IdType type, std::span<const char> bytes, int32_t* out) {
  with_type(type, [&](auto zero) {
    for (const auto id : as<decltype(zero)>(bytes)) *out++ = static_cast<int32_t>(id);
  });
}

constexpr uint64_t kIdEnd = uint64_t{1} << 31;

}  // namespace

IdType narrowest(int64_t largest_id, IdType least) {
  for (const IdType type : {IdType::u8, IdType::u16, IdType::u32})
    if (type >= least && largest_id < int64_t{1} << (8 * bytes_of(type))) return type;
  return IdType::u64;
}

TokenFile::TokenFile(File file, IdType type, int64_t offset, int64_t ids)
    : file_(std::move(file)), type_(type), offset_(offset), ids_(ids) {}

TokenFile TokenFile::open_flat(const Place& place, IdType type) {
  File file = open_place(place);
  const int64_t size = file.size();
  if (size % bytes_of(type) != 0)
    refuse(place,
           fmt::format("holds {} bytes, no multiple of {} bytes an id: it was cut, or has another type", size,
                       bytes_of(type)),
           "write the file again, or correct data.format");
  return {std::move(file), type, 0, size / bytes_of(type)};
}

void TokenFile::read(int64_t start, std::span<int32_t> out) const {
  MUSTER_CHECK(start >= 0 && start + std::ssize(out) <= ids_, "ids {}..{} of {}", start,
               start + std::ssize(out), ids_);
  alignas(8) std::array<char, 16384> buffer;
  const int64_t width = bytes_of(type_), most = std::ssize(buffer) / width;
  for (int64_t done = 0; done < std::ssize(out);) {
    const int64_t ids = std::min(most, std::ssize(out) - done);
    const std::span<char> bytes(buffer.data(), static_cast<size_t>(ids * width));
    file_.read_at(bytes.data(), bytes.size(), offset_ + (start + done) * width);
    if (largest_of(type_, bytes) >= kIdEnd)
      throw WorldError(WorldError::Kind::data,
                       fmt::format("{} holds an id of 2^31 or more, or a negative one,"
                                   " near id {}",
                                   path().string(), start + done));
    widen(type_, bytes, out.data() + done);
    done += ids;
  }
}

template <class See>
void TokenFile::stream(See&& see) const {
  std::vector<uint64_t> buffer(kHashedBytes / sizeof(uint64_t));
  const int64_t width = bytes_of(type_), most = kHashedBytes / width;
  for (int64_t done = 0; done < ids_; done += most) {
    const int64_t ids = std::min(most, ids_ - done);
    const std::span<char> bytes(reinterpret_cast<char*>(buffer.data()), static_cast<size_t>(ids * width));
    file_.read_at(bytes.data(), bytes.size(), offset_ + done * width);
    if (!see(std::span<const char>(bytes), done)) return;
  }
}

std::optional<IdAt> TokenFile::find_at_least(uint64_t limit) const {
  if (type_ != IdType::u64 && limit >> (8 * bytes_of(type_)) != 0) return std::nullopt;
  std::optional<IdAt> found;
  stream([&](std::span<const char> bytes, int64_t first) {
    if (largest_of(type_, bytes) < limit) return true;
    const int64_t at = first_at_least(type_, bytes, limit);
    uint64_t id = 0;
    std::memcpy(&id, bytes.data() + at * bytes_of(type_), static_cast<size_t>(bytes_of(type_)));
    found = IdAt{id, first + at};
    return false;
  });
  return found;
}

std::optional<uint64_t> TokenFile::largest() const {
  std::optional<uint64_t> largest;
  stream([&](std::span<const char> bytes, int64_t) {
    largest = std::max(largest.value_or(0), largest_of(type_, bytes));
    return true;
  });
  return largest;
}

uint64_t TokenFile::checksum() const {
  uint64_t hash = 0;
  stream([&](std::span<const char> bytes, int64_t) {
    hash = hash64({bytes.data(), bytes.size()}, hash);
    return true;
  });
  return hash;
}

}  // namespace muster::data
