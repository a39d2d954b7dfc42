#include "checkpoint/set/claims.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/json.h"

namespace muster::checkpoint {
namespace {

constexpr const char* kClaims = "claims";

constexpr const char* kTaken = ".taken";
constexpr const char* kDecided = ".json";

std::string file_of(int64_t generation, const char* kind) {
  return fmt::format("g{}{}", generation, kind);
}

// Of a file of this kind.
std::optional<int64_t> generation_of(const std::string& file, const char* kind) {
  int64_t generation = 0;
  if (!file.starts_with("g")) return std::nullopt;
  std::from_chars(file.data() + 1, file.data() + file.size(), generation);
  return generation > 0 && file == file_of(generation, kind) ? std::optional(generation) : std::nullopt;
}

std::string text_of(const Claim& claim) {
  const Json json = {{"generation", claim.generation},
                     {"incarnation", claim.incarnation},
                     {"parent", claim.parent ? Json(to_string(*claim.parent)) : Json()}};
  return json.dump() + "\n";
}

Claim parse_claim(const fs::path& path, int64_t generation) {
  Claim claim{generation, "", std::nullopt, true};
  const std::string text = read_text(path, 4096);
  const Json json = parse_json(text, path.string());
  try {
    claim.incarnation = json.at("incarnation").get<std::string>();
    if (!json.at("parent").is_null()) claim.parent = parse_set_name(json.at("parent").get<std::string>());
  } catch (const Json::exception& error) {
    throw WorldError(WorldError::Kind::data, path.string() + ": " + error.what());
  }
  if (text_of(claim) != text)
    throw WorldError(WorldError::Kind::data, path.string() + ": is not what was written");
  return claim;
}

Claim undecided(int64_t generation) {
  return {generation, "", std::nullopt, false};
}

Claim read_claim(const fs::path& path, int64_t generation, const Log& log) {
  try {
    return parse_claim(path, generation);
  } catch (const WorldError& error) {
    log.warning("{}; the claim counts as taken and limits nothing", error.what());
    return undecided(generation);
  }
}

void make_folders(Storage& storage, const fs::path& root) {
  for (const fs::path& place : {root, root / kClaims}) {
    if (fs::is_directory(place)) continue;
    storage.make_folder(place);
    storage.sync_folder(place.parent_path());
  }
}

void publish_claim(Storage& storage, const fs::path& root, const Claim& claim, const char* kind) {
  const std::string file = file_of(claim.generation, kind);
  publish(storage, root / kClaims, file, "." + file + "." + claim.incarnation, text_of(claim));
}

}  // namespace

std::vector<Claim> read_claims(const fs::path& root, const Log& log) {
  std::map<int64_t, Claim> by_generation;
  const fs::path folder = root / kClaims;
  if (!fs::is_directory(folder)) return {};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (const auto taken = generation_of(file, kTaken)) by_generation.emplace(*taken, undecided(*taken));
    if (const auto decided = generation_of(file, kDecided))
      by_generation[*decided] = read_claim(entry.path(), *decided, log);
  }
  std::vector<Claim> claims;
  for (auto& [generation, claim] : by_generation) claims.push_back(std::move(claim));
  return claims;
}

int64_t newest_generation(const fs::path& root, const Log& log) {
  const std::vector<Claim> claims = read_claims(root, log);
  return claims.empty() ? 0 : claims.back().generation;
}

void check_not_taken_over(const fs::path& root, int64_t generation, const Log& log) {
  const int64_t newest = newest_generation(root, log);
  if (newest > generation)
    throw WorldError(WorldError::Kind::fenced,
                     fmt::format("generation {} of {} was taken over by generation {}: this process stops",
                                 generation, root.string(), newest));
}

Claim take_generation(Storage& storage, const fs::path& root, const Log& log) {
  make_folders(storage, root);
  Claim mine = undecided(newest_generation(root, log) + 1);
  mine.incarnation = new_nonce();
  try {
    publish_claim(storage, root, mine, kTaken);
  } catch (const WorldError& error) {
    std::error_code ignored;
    if (!fs::exists(root / kClaims / file_of(mine.generation, kTaken), ignored)) throw;
    throw WorldError(WorldError::Kind::fenced,
                     fmt::format("another start of this run took generation {} of {} ({})", mine.generation,
                                 root.string(), error.what()));
  }
  return mine;
}

void decide_parent(Storage& storage, const fs::path& root, Claim& taken, std::optional<SetName> parent,
                   const Log& log) {
  check_not_taken_over(root, taken.generation, log);
  taken.parent = parent;
  taken.is_decided = true;
  publish_claim(storage, root, taken, kDecided);
}

bool in_lineage(const SetName& name, const std::vector<Claim>& claims) {
  return std::ranges::all_of(claims, [&](const Claim& claim) {
    if (claim.generation <= name.generation || !claim.is_decided) return true;
    return name.step <= (claim.parent ? claim.parent->step : 0);
  });
}

}  // namespace muster::checkpoint
