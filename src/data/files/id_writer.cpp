#include "data/files/id_writer.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace muster::data {

IdWriter::IdWriter(fs::path path, IdType type)
    : path_(std::move(path)),
      beside_(path_.string() + fmt::format(".new-{}", ::getpid())),
      file_(File::create(beside_)),
      type_(type) {
  buffer_.reserve(kHashedBytes);
}

IdWriter::~IdWriter() {
  std::error_code ignored;
  if (file_) fs::remove(beside_, ignored);
}

template <class Id>
void IdWriter::narrow(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const Id stored = static_cast<Id>(id);
    MUSTER_CHECK(id >= 0 && static_cast<int64_t>(stored) == id, "id {} in {} bytes", id, sizeof(Id));
    const auto* bytes = reinterpret_cast<const char*>(&stored);
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof(Id));
    if (std::ssize(buffer_) == kHashedBytes) flush();
  }
}

void IdWriter::append(std::span<const int32_t> ids) {
  if (type_ == IdType::u8) narrow<uint8_t>(ids);
  if (type_ == IdType::u16) narrow<uint16_t>(ids);
  if (type_ == IdType::u32) narrow<uint32_t>(ids);
  if (type_ == IdType::u64) narrow<uint64_t>(ids);
  ids_ += std::ssize(ids);
}

void IdWriter::flush() {
  if (buffer_.empty()) return;
  checksum_ = hash64({buffer_.data(), buffer_.size()}, checksum_);
  file_.write_all(buffer_.data(), buffer_.size());
  buffer_.clear();
}

uint64_t IdWriter::checksum() {
  flush();
  return checksum_;
}

void IdWriter::commit(std::string_view tail) {
  flush();
  file_.write_all(tail);
  file_.sync();
  file_.close();
  fs::rename(beside_, path_);
  sync_folder(path_.parent_path());
}

}  // namespace muster::data
