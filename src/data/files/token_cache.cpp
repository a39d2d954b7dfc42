#include "data/files/token_cache.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "base/units.h"

namespace muster::data {
namespace {

constexpr char kMagic[8] = {'M', 'U', 'S', 'T', 'E', 'R', 'T', 'K'};
constexpr uint32_t kVersion = 1;

struct Footer {
  char magic[8];
  uint32_t version;
  uint32_t id_bytes;
  int64_t ids;
  int64_t documents;
  int64_t skipped_lines;
  uint64_t key;
  uint64_t checksum;  // of the ids
  uint64_t own_hash;  // of the fields before it
};
static_assert(sizeof(Footer) == 64, "no padding: the footer is written as it lies");

uint64_t hash_of(const Footer& footer) {
  return hash64({reinterpret_cast<const char*>(&footer), offsetof(Footer, own_hash)});
}

bool is_sound(const Footer& footer, uint64_t key, int64_t size) {
  if (std::memcmp(footer.magic, kMagic, sizeof kMagic) != 0 || footer.version != kVersion) return false;
  if (footer.own_hash != hash_of(footer) || footer.key != key || !std::has_single_bit(footer.id_bytes))
    return false;
  return footer.ids >= 0 && size == footer.ids * footer.id_bytes + int64_t{sizeof(Footer)};
}

// Held by one process of the node at a time; the kernel releases it when its holder ends.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : file_(File::append(path)) {
    while (::flock(file_.fd(), LOCK_EX) != 0)
      if (errno != EINTR)
        throw WorldError(WorldError::Kind::disk,
                         fmt::format("cannot lock {}: {}", path.string(), strerror(errno)));
  }

 private:
  File file_;
};

fs::path cache_root() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return xdg;
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache";
  throw WorldError(WorldError::Kind::disk, "no place for the token cache: set XDG_CACHE_HOME or HOME");
}

uint64_t hash_range(const File& file, int64_t begin, int64_t end, uint64_t hash) {
  std::string bytes;
  for (; begin < end; begin += std::ssize(bytes)) {
    bytes.resize(static_cast<size_t>(std::min(kHashedBytes, end - begin)));
    file.read_at(bytes.data(), bytes.size(), begin);
    hash = hash64(bytes, hash);
  }
  return hash;
}

}  // namespace

uint64_t content_hash(const Place& place) {
  constexpr int64_t kReadWhole = 256 * MiB;
  const File file = open_place(place);
  const int64_t size = file.size();
  const auto seed = static_cast<uint64_t>(size);
  if (size <= kReadWhole) return hash_range(file, 0, size, seed);
  struct stat status {};
  ::fstat(file.fd(), &status);
  const std::string when = fmt::format("{}.{}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  const uint64_t head = hash_range(file, 0, MiB, hash64(when, seed));
  return hash_range(file, size - MiB, size, head);
}

TokenCache TokenCache::open_default() {
  const fs::path folder = cache_root() / "muster";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw WorldError(
        WorldError::Kind::disk,
        fmt::format("cannot make the token cache {}: {}; set XDG_CACHE_HOME to a folder that can be "
                    "written",
                    folder.string(), error.message()));
  return TokenCache(folder);
}

fs::path TokenCache::entry_path(uint64_t key) const {
  return folder_ / fmt::format("tokens-{:016x}.ids", key);
}

std::optional<CacheEntry> TokenCache::find(uint64_t key, bool read_all) const {
  const fs::path path = entry_path(key);
  if (!fs::is_regular_file(path)) return std::nullopt;
  File file = File::open_read(path);
  const int64_t size = file.size();
  Footer footer;
  if (size < int64_t{sizeof footer}) return std::nullopt;
  file.read_at(&footer, sizeof footer, size - int64_t{sizeof footer});
  if (!is_sound(footer, key, size)) return std::nullopt;
  TokenFile ids(std::move(file), static_cast<IdType>(footer.id_bytes), 0, footer.ids);
  if (read_all && ids.checksum() != footer.checksum) return std::nullopt;
  return CacheEntry{std::move(ids), footer.documents, footer.skipped_lines};
}

CacheEntry TokenCache::find_or_fill(uint64_t key, IdType type, bool read_all, const Fill& fill) const {
  if (auto entry = find(key, read_all)) return std::move(*entry);
  const FileLock lock(fs::path(entry_path(key)).replace_extension(".lock"));
  // Another process may have filled it while this one waited.
  if (auto entry = find(key, read_all)) return std::move(*entry);
  IdWriter writer(entry_path(key), type);
  const Counts counts = fill(writer);
  Footer footer{{},           kVersion,          static_cast<uint32_t>(bytes_of(type)),
                writer.ids(), counts.documents,  counts.skipped_lines,
                key,          writer.checksum(), 0};
  std::memcpy(footer.magic, kMagic, sizeof kMagic);
  footer.own_hash = hash_of(footer);
  writer.commit({reinterpret_cast<const char*>(&footer), sizeof footer});
  auto entry = find(key, false);
  MUSTER_CHECK(entry.has_value(), "the cache entry just written is not sound");
  return std::move(*entry);
}

}  // namespace muster::data
