#include "checkpoint/set/claims.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json.h"

namespace muster::checkpoint {
namespace {

constexpr const char* kClaims = "claims";

std::string file_of(int64_t generation) {
  return fmt::format("g{}.json", generation);
}

std::optional<int64_t> generation_of(const std::string& file) {
  int64_t generation = 0;
  if (!file.starts_with("g")) return std::nullopt;
  std::from_chars(file.data() + 1, file.data() + file.size(), generation);
  return generation > 0 && file == file_of(generation) ? std::optional(generation) : std::nullopt;
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

}  // namespace

std::vector<Claim> read_claims(const fs::path& root, const Log& log) {
  std::vector<Claim> claims;
  const fs::path folder = root / kClaims;
  if (!fs::is_directory(folder)) return claims;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const auto generation = generation_of(entry.path().filename().string());
    if (!generation) continue;
    try {
      claims.push_back(parse_claim(entry.path(), *generation));
    } catch (const WorldError& error) {
      log.warning("{}; the claim counts as taken and limits nothing", error.what());
      claims.push_back({*generation, "", std::nullopt, false});
    }
  }
  std::ranges::sort(claims, {}, &Claim::generation);
  return claims;
}

Claim claim_generation(Storage& storage, const fs::path& root, std::optional<SetName> parent,
                       const Log& log) {
  const fs::path folder = root / kClaims;
  for (const fs::path& place : {root, folder}) {
    if (fs::is_directory(place)) continue;
    storage.make_folder(place);
    storage.sync_folder(place.parent_path());
  }
  const std::vector<Claim> before = read_claims(root, log);
  const Claim mine{before.empty() ? 1 : before.back().generation + 1, new_nonce(), parent, true};
  const std::string file = file_of(mine.generation);
  try {
    publish(storage, folder, file, "." + file + "." + mine.incarnation, text_of(mine));
  } catch (const WorldError& error) {
    std::error_code ignored;
    if (!fs::exists(folder / file, ignored)) throw;
    throw WorldError(WorldError::Kind::fenced,
                     fmt::format("another start of this run took generation {} of {} ({})", mine.generation,
                                 root.string(), error.what()));
  }
  return mine;
}

bool in_lineage(const SetName& name, const std::vector<Claim>& claims) {
  return std::ranges::all_of(claims, [&](const Claim& claim) {
    if (claim.generation <= name.generation || !claim.is_readable) return true;
    return name.step <= (claim.parent ? claim.parent->step : 0);
  });
}

}  // namespace muster::checkpoint
