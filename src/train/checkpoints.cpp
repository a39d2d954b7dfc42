#include "train/checkpoints.h"

#include "base/error.h"
#include "base/units.h"

namespace muster::train {
namespace {

Json to_json(const checkpoint::Claim& claim) {
  return {
      {"generation", claim.generation}, {"incarnation", claim.incarnation}, {"error", ""}, {"fenced", false}};
}

}  // namespace

Checkpoints::Checkpoints(Rank& rank, const spec::Job& job, fs::path root, const Log& log)
    : rank_(rank),
      job_(job),
      root_(std::move(root)),
      log_(log),
      assembly_(rank.groups(), rank.executor().device()),
      state_(state_of(rank)) {}

int64_t Checkpoints::resume() {
  const bool leads = rank_.number() == 0;
  const checkpoint::Expected expected = expected_of(job_, rank_.mesh().world_size());
  const auto loaded = checkpoint::load_newest(assembly_, root_, state_, expected, rank_.number(), log_);
  if (!loaded) {
    if (leads)
      log_.info("--resume: there is no checkpoint in {}; the run starts from the start", root_.string());
    return 0;
  }
  check_cursor(*loaded, job_);
  parent_ = loaded->name;
  newest_step_ = loaded->name.step;
  contract_ = checkpoint::contract_of(*loaded, expected);
  if (!leads) return newest_step_;
  log_.info("resumed from {} ({}): the next update is {}, the next sample {}", to_string(loaded->name),
            contract_, newest_step_ + 1, loaded->next_sample);
  if (contract_ == checkpoint::kCoverage)
    log_.info("its layout was {} on {} ranks: {}", loaded->layout, loaded->world,
              checkpoint::compare(*loaded, expected).layout);
  return newest_step_;
}

void Checkpoints::claim() {
  if (!is_on()) return;
  Json mine;
  if (rank_.number() == 0) {
    try {
      mine = to_json(checkpoint::claim_generation(storage_, root_, parent_, log_));
    } catch (const WorldError& error) {
      mine = {{"error", error.what()}, {"fenced", error.kind() == WorldError::Kind::fenced}};
    }
  }
  checkpoint::Claim claim{0, "", parent_, true};
  for (const std::string& text : assembly_.gather(mine.dump())) {
    const Json told = Json::parse(text);
    if (told.is_null()) continue;
    if (!told["error"].get<std::string>().empty())
      throw WorldError(told["fenced"] ? WorldError::Kind::fenced : WorldError::Kind::disk,
                       "checkpoints cannot be written: " + told["error"].get<std::string>());
    claim.generation = told["generation"];
    claim.incarnation = told["incarnation"];
  }
  saver_.emplace(storage_, assembly_, root_, claim, rank_.number(), job_.checkpoint.keep, log_);
  stop_.emplace();
}

checkpoint::SaveOutcome Checkpoints::save(int64_t step) {
  const bool leads = rank_.number() == 0;
  const Clock& clock = rank_.executor().clock();
  const double start = clock.seconds();
  if (leads) log_.info("checkpoint of step {}: requested", step);
  const checkpoint::SaveOutcome outcome =
      saver_->save(state_, facts_of(job_, rank_.mesh().world_size(), step));
  if (outcome.is_durable()) newest_step_ = step;
  if (!leads) return outcome;
  if (outcome.is_durable())
    log_.info("checkpoint {}: durable, {} in {}", to_string(outcome.name), format_bytes(outcome.bytes),
              format_seconds(clock.seconds() - start));
  else
    log_.error("checkpoint {} was given up, and training goes on: {}", to_string(outcome.name),
               outcome.failure);
  return outcome;
}

int Checkpoints::stop_signal() {
  return stop_ ? static_cast<int>(assembly_.maximum(stop_->signal())) : 0;
}

}  // namespace muster::train
