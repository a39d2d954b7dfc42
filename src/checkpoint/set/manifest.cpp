#include "checkpoint/set/manifest.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors_header.h"

namespace muster::checkpoint {
namespace {

constexpr int64_t kWidestElement = 8;

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw WorldError(WorldError::Kind::data, source + ": " + what);
}

Json to_json(const ManifestFile& file) {
  Json chunks = Json::array();
  for (uint64_t hash : file.chunks) chunks.push_back(hash_text(hash));
  return {{"name", file.name}, {"bytes", file.bytes}, {"chunks", chunks}};
}

Json to_json(const ManifestData& data) {
  return {{"field", data.field}, {"path", data.path}, {"bytes", data.bytes}, {"hash", hash_text(data.hash)}};
}

Json to_json(const ManifestPiece& at) {
  Json runs = Json::array();
  for (const spec::IndexRun& run : at.piece.part().runs) runs.push_back({run.global, run.size});
  return {{"file", at.file}, {"offset", at.offset},       {"dim", at.piece.part().dim},
          {"runs", runs},    {"begin", at.piece.begin()}, {"end", at.piece.end()}};
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
    if (json.contains("transport")) m.transport = text(json, "transport");
    m.world = number(json, "world");
    m.job = json.at("job").get<std::map<std::string, std::string>>();
    m.code = json.at("code").get<std::map<std::string, std::string>>();
    m.next_sample = number(json.at("cursor"), "next_sample");
    if (json.contains("data"))
      for (const Json& entry : json.at("data")) m.data.push_back(data(entry));
    m.learning_rate = json.at("learning_rate").get<double>();
    for (const auto& [name, value] : json.at("counters").items()) m.counters[name] = whole(value, name);
    m.chunk_bytes = number(json, "chunk_bytes");
    if (m.chunk_bytes < 1 || m.chunk_bytes > kChunkBytes || m.chunk_bytes % kWidestElement != 0)
      refuse(source_, "chunk_bytes is out of range, or cuts an element");
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
    if (error != std::errc() || digits != hash_text(value)) refuse(source_, "a hash is none");
    return value;
  }

  ManifestData data(const Json& json) const {
    return {text(json, "field"), text(json, "path"), number(json, "bytes"), hash(json.at("hash"))};
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
    checked_bytes({.name = t.name, .dtype = t.dtype, .shape = t.shape, .begin = 0, .end = 0}, source_);
    for (const Json& entry : json.at("pieces")) t.pieces.push_back(piece(entry, t, files));
    return t;
  }

  spec::Part part(const Json& json, const ManifestTensor& tensor) const {
    spec::Part part{static_cast<int>(std::min<int64_t>(number(json, "dim"), kMostRank)), {}};
    int64_t local = 0;
    for (const Json& pair : json.at("runs")) {
      if (!pair.is_array() || pair.size() != 2) refuse(source_, tensor.name + ": a run is no pair");
      part.runs.push_back({local, whole(pair[0], "runs"), whole(pair[1], "runs")});
      if (part.runs.back().size > INT64_MAX - local) refuse(source_, tensor.name + ": its runs overflow");
      local += part.runs.back().size;
    }
    const std::string problem = spec::check_part(tensor.shape, part);
    if (!problem.empty()) refuse(source_, fmt::format("a piece leaves {}: {}", tensor.name, problem));
    return part;
  }

  ManifestPiece piece(const Json& json, const ManifestTensor& tensor,
                      const std::vector<ManifestFile>& files) const {
    const spec::Piece part(tensor.shape, this->part(json, tensor));
    const int64_t begin = number(json, "begin"), end = number(json, "end");
    if (begin > end || end > part.elements())
      refuse(source_, fmt::format("a piece of {} has elements {} to {} of {}", tensor.name, begin, end,
                                  part.elements()));
    const ManifestPiece p{number(json, "file"), number(json, "offset"), part.narrow(begin, end)};
    if (p.file >= static_cast<int64_t>(files.size())) refuse(source_, tensor.name + ": no such file");
    const int64_t in_file = files[static_cast<size_t>(p.file)].bytes, bytes = tensor.bytes_of(p);
    if (bytes > in_file || p.offset > in_file - bytes)
      refuse(source_, tensor.name + ": a piece ends after its file");
    if (p.offset % bytes_of(tensor.dtype) != 0)
      refuse(source_, tensor.name + ": a piece does not start on an element");
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
  Json data = Json::array(), files = Json::array(), tensors = Json::array();
  for (const ManifestData& file : m.data) data.push_back(to_json(file));
  for (const ManifestFile& file : m.files) files.push_back(to_json(file));
  for (const ManifestTensor& tensor : m.tensors) tensors.push_back(to_json(tensor));
  return {{"schema", kSchema},
          {"step", m.name.step},
          {"generation", m.name.generation},
          {"incarnation", m.incarnation},
          {"parent", m.parent ? Json(to_string(*m.parent)) : Json()},
          {"contract", m.contract},
          {"layout", m.layout},
          {"transport", m.transport},
          {"world", m.world},
          {"job", m.job},
          {"job_hash", hash_text(hash_of_job(m.job))},
          {"code", m.code},
          {"cursor", {{"next_sample", m.next_sample}}},
          {"data", data},
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

void add_part(Manifest& manifest, Manifest part) {
  const auto file = static_cast<int64_t>(manifest.files.size());
  manifest.files.push_back(std::move(part.files.at(0)));
  std::map<std::string_view, size_t> known;
  for (size_t at = 0; at < manifest.tensors.size(); ++at) known.emplace(manifest.tensors[at].name, at);
  std::vector<ManifestTensor> fresh;
  for (ManifestTensor& tensor : part.tensors) {
    for (ManifestPiece& piece : tensor.pieces) piece.file = file;
    const auto found = known.find(tensor.name);
    if (found == known.end()) {
      fresh.push_back(std::move(tensor));
      continue;
    }
    ManifestTensor& twin = manifest.tensors[found->second];
    if (twin.dtype != tensor.dtype || twin.shape != tensor.shape)
      refuse(manifest.files.back().name,
             fmt::format("holds {} as {} {}, and another rank as {} {}", tensor.name, to_string(tensor.dtype),
                         Json(tensor.shape).dump(), to_string(twin.dtype), Json(twin.shape).dump()));
    std::ranges::move(tensor.pieces, std::back_inserter(twin.pieces));
  }
  std::ranges::move(fresh, std::back_inserter(manifest.tensors));
}

void check_tiling(const Manifest& manifest, const std::string& source) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    std::vector<spec::Piece> pieces;
    for (const ManifestPiece& at : tensor.pieces) pieces.push_back(at.piece);
    const std::string problem = spec::check_tiling(tensor.shape, pieces);
    if (!problem.empty()) refuse(source, fmt::format("the pieces of {} {}", tensor.name, problem));
  }
}

std::string commit_text(const SetName& name, std::string_view manifest_text) {
  return fmt::format("{{\"step\":{},\"generation\":{},\"manifest\":\"{}\"}}\n", name.step, name.generation,
                     hash_text(hash64(manifest_text)));
}

}  // namespace muster::checkpoint
