#include "checkpoint/set/manifest.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors_header.h"

namespace muster::checkpoint {
namespace {

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw WorldError(WorldError::Kind::data, source + ": " + what);
}

Json to_json(const ManifestFile& file) {
  Json chunks = Json::array();
  for (uint64_t hash : file.chunks) chunks.push_back(hash_text(hash));
  return {{"name", file.name}, {"bytes", file.bytes}, {"chunks", chunks}};
}

Json to_json(const ManifestPiece& piece) {
  return {{"file", piece.file},
          {"offset", piece.offset},
          {"bytes", piece.bytes},
          {"start", piece.start},
          {"shape", piece.shape}};
}

Json to_json(const ManifestTensor& tensor) {
  Json pieces = Json::array();
  for (const ManifestPiece& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {
      {"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
}

// Reads one manifest; `source` names it in every refusal.
class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  Manifest read(const Json& json) const {
    if (number(json, "schema") != kSchema)
      refuse(source_, fmt::format("schema {}, and this program reads {}", number(json, "schema"), kSchema));
    Manifest m;
    m.name = {number(json, "step"), number(json, "generation")};
    m.incarnation = text(json, "incarnation");
    if (!json.at("parent").is_null()) m.parent = parse_set_name(text(json, "parent"));
    m.contract = text(json, "contract");
    m.layout = text(json, "layout");
    m.world = number(json, "world");
    m.job = json.at("job").get<std::map<std::string, std::string>>();
    m.code = json.at("code").get<std::map<std::string, std::string>>();
    m.next_sample = number(json.at("cursor"), "next_sample");
    m.learning_rate = json.at("learning_rate").get<double>();
    for (const auto& [name, value] : json.at("counters").items()) m.counters[name] = whole(value, name);
    m.chunk_bytes = number(json, "chunk_bytes");
    if (m.chunk_bytes < 1 || m.chunk_bytes > kChunkBytes) refuse(source_, "chunk_bytes is out of range");
    for (const Json& entry : json.at("files")) m.files.push_back(file(entry, m.chunk_bytes));
    for (const Json& entry : json.at("tensors")) m.tensors.push_back(tensor(entry, m.files));
    check_names(m);
    return m;
  }

 private:
  int64_t whole(const Json& value, const std::string& key) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
      refuse(source_, fmt::format("\"{}\" is no count", key));
    return value.get<int64_t>();
  }
  int64_t number(const Json& json, const char* key) const { return whole(json.at(key), key); }
  std::string text(const Json& json, const char* key) const { return json.at(key).get<std::string>(); }

  std::vector<int64_t> list(const Json& json, const char* key) const {
    std::vector<int64_t> numbers;
    for (const Json& value : json.at(key)) numbers.push_back(whole(value, key));
    if (numbers.size() > kMostRank) refuse(source_, fmt::format("\"{}\" has too many dims", key));
    return numbers;
  }

  uint64_t hash(const Json& json) const {
    const auto digits = json.get<std::string>();
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || digits != hash_text(value)) refuse(source_, "a chunk's hash is none");
    return value;
  }

  ManifestFile file(const Json& json, int64_t chunk_bytes) const {
    ManifestFile f{text(json, "name"), number(json, "bytes"), {}};
    if (!is_plain_name(f.name) || f.name == kManifest || f.name == kCommit)
      refuse(source_, "a file's name is not allowed: " + Json(f.name).dump());
    for (const Json& chunk : json.at("chunks")) f.chunks.push_back(hash(chunk));
    const int64_t chunks = f.bytes / chunk_bytes + (f.bytes % chunk_bytes > 0);
    if (chunks != static_cast<int64_t>(f.chunks.size()))
      refuse(source_, fmt::format("{} has {} hashes for {} chunks", f.name, f.chunks.size(), chunks));
    return f;
  }

  ManifestTensor tensor(const Json& json, const std::vector<ManifestFile>& files) const {
    ManifestTensor t;
    t.name = text(json, "name");
    const auto dtype = parse_dtype(text(json, "dtype"));
    if (!dtype) refuse(source_, t.name + ": unknown dtype");
    t.dtype = *dtype;
    t.shape = list(json, "shape");
    for (const Json& entry : json.at("pieces")) t.pieces.push_back(piece(entry, t, files));
    return t;
  }

  ManifestPiece piece(const Json& json, const ManifestTensor& tensor,
                      const std::vector<ManifestFile>& files) const {
    const ManifestPiece p{number(json, "file"), number(json, "offset"), number(json, "bytes"),
                          list(json, "start"), list(json, "shape")};
    if (p.file >= static_cast<int64_t>(files.size())) refuse(source_, tensor.name + ": no such file");
    const int64_t in_file = files[static_cast<size_t>(p.file)].bytes;
    if (p.bytes > in_file || p.offset > in_file - p.bytes)
      refuse(source_, tensor.name + ": a piece ends after its file");
    if (p.start.size() != tensor.shape.size() || p.shape.size() != tensor.shape.size())
      refuse(source_, tensor.name + ": a piece has another number of dims");
    for (size_t dim = 0; dim < tensor.shape.size(); ++dim)
      if (p.shape[dim] > tensor.shape[dim] || p.start[dim] > tensor.shape[dim] - p.shape[dim])
        refuse(source_, tensor.name + ": a piece leaves its tensor");
    const TensorEntry entry{
        .name = tensor.name, .dtype = tensor.dtype, .shape = p.shape, .begin = 0, .end = 0};
    if (checked_bytes(entry, source_) != p.bytes)
      refuse(source_, tensor.name + ": a piece's bytes are wrong");
    return p;
  }

  void check_names(const Manifest& m) const {
    std::set<std::string> seen;
    for (const ManifestFile& f : m.files)
      if (!seen.insert(f.name).second) refuse(source_, f.name + " is listed twice");
    seen.clear();
    for (const ManifestTensor& t : m.tensors)
      if (!seen.insert(t.name).second) refuse(source_, t.name + " is listed twice");
  }

  const std::string& source_;
};

bool overlap(const ManifestPiece& a, const ManifestPiece& b) {
  for (size_t dim = 0; dim < a.start.size(); ++dim)
    if (a.start[dim] + a.shape[dim] <= b.start[dim] || b.start[dim] + b.shape[dim] <= a.start[dim])
      return false;
  return a.bytes > 0 && b.bytes > 0;
}

}  // namespace

std::string hash_text(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

uint64_t hash_of_job(const std::map<std::string, std::string>& job) {
  return hash64(Json(job).dump());
}

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes;
  return sum;
}

Json to_json(const Manifest& m) {
  Json files = Json::array(), tensors = Json::array();
  for (const ManifestFile& file : m.files) files.push_back(to_json(file));
  for (const ManifestTensor& tensor : m.tensors) tensors.push_back(to_json(tensor));
  return {{"schema", kSchema},
          {"step", m.name.step},
          {"generation", m.name.generation},
          {"incarnation", m.incarnation},
          {"parent", m.parent ? Json(to_string(*m.parent)) : Json()},
          {"contract", m.contract},
          {"layout", m.layout},
          {"world", m.world},
          {"job", m.job},
          {"job_hash", hash_text(hash_of_job(m.job))},
          {"code", m.code},
          {"cursor", {{"next_sample", m.next_sample}}},
          {"learning_rate", m.learning_rate},
          {"counters", m.counters},
          {"chunk_bytes", m.chunk_bytes},
          {"bytes", m.bytes()},
          {"files", files},
          {"tensors", tensors}};
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  Manifest manifest = read_manifest(text, source);
  check_tiling(manifest, source);
  return manifest;
}

Manifest read_manifest(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  try {
    return Reader(source).read(json);
  } catch (const Json::exception& error) {
    refuse(source, error.what());
  }
}

void check_tiling(const Manifest& manifest, const std::string& source) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    const TensorEntry whole{
        .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .begin = 0, .end = 0};
    int64_t missing = checked_bytes(whole, source);
    for (size_t a = 0; a < tensor.pieces.size(); ++a) {
      missing -= tensor.pieces[a].bytes;
      for (size_t b = 0; b < a; ++b)
        if (overlap(tensor.pieces[a], tensor.pieces[b]))
          refuse(source, fmt::format("two pieces of {} overlap", tensor.name));
    }
    if (missing != 0)
      refuse(source, fmt::format("the pieces of {} leave {} bytes out", tensor.name, missing));
  }
}

std::string commit_text(const SetName& name, std::string_view manifest_text) {
  return fmt::format("{{\"step\":{},\"generation\":{},\"manifest\":\"{}\"}}\n", name.step, name.generation,
                     hash_text(hash64(manifest_text)));
}

}  // namespace muster::checkpoint
