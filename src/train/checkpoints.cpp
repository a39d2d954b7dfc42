#include "train/checkpoints.h"

#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace muster::train {
namespace {

// By the claims of the run so far; the time that it lay still counts too.
Interruptions interruptions_of(const fs::path& root, int64_t generation) {
  std::error_code error;
  const auto first = fs::last_write_time(root / "claims/g1.json", error);
  if (error) return {};
  const std::chrono::duration<double> since = fs::file_time_type::clock::now() - first;
  return {generation - 1, std::max(0.0, since.count() / 3600)};
}

}  // namespace

Checkpoints::Checkpoints(Rank& rank, const spec::Job& job, fs::path root, const Log& log)
    : rank_(rank),
      job_(job),
      root_(std::move(root)),
      log_(log),
      assembly_(rank.groups(), rank.executor().device()),
      state_(state_of(rank)),
      votes_(rank.groups(), rank.executor().device()) {}

Checkpoints::~Checkpoints() {
  if (!under_way_) return;
  log_.warning("checkpoint {} is given up: the run ends", to_string(under_way_->save->manifest.name));
  under_way_->save->given_up = true;
  storage_.give_up();
}

int64_t Checkpoints::resume() {
  take();
  const bool leads = rank_.number() == 0;
  checkpoint::Expected expected = expected_of(job_, rank_.mesh().world_size());
  read_data();
  expected.data = data_;
  expected.transport = rank_.groups().transport();
  const double start = now();
  const auto loaded = checkpoint::load_newest(assembly_, root_, state_, expected, rank_.number(), log_);
  if (!loaded) {
    if (leads)
      log_.info("--resume: there is no checkpoint in {}; the run starts from the start", root_.string());
    return 0;
  }
  rank_.parameters().round_masters(rank_.executor());
  check_cursor(*loaded, job_);
  parent_ = loaded->name;
  newest_step_ = loaded->name.step;
  contract_ = checkpoint::contract_of(*loaded, expected);
  if (!leads) return newest_step_;
  log_.info("resumed from {} ({}): the next update is {}, the next sample {}; read in {}",
            to_string(loaded->name), contract_, newest_step_ + 1, loaded->next_sample,
            format_seconds(now() - start));
  if (contract_ == checkpoint::kCoverage)
    log_.info("its layout was {} on {} ranks: {}", loaded->layout, loaded->world,
              checkpoint::compare(*loaded, expected).layout);
  return newest_step_;
}

void Checkpoints::read_data() {
  if (leads() && data_.empty()) data_ = data_of(job_);
}

checkpoint::Manifest Checkpoints::facts(int64_t step) const {
  checkpoint::Manifest facts = facts_of(job_, rank_.mesh().world_size(), step);
  facts.data = data_;
  facts.transport = rank_.groups().transport();
  return facts;
}

void Checkpoints::take() {
  first_rank_claims([&] {
    // A run that saves nothing has nothing to take over where nothing was saved.
    if (job_.checkpoint.is_on() || fs::is_directory(root_))
      claim_ = checkpoint::take_generation(storage_, root_, log_);
  });
}

void Checkpoints::claim() {
  if (claim_.generation == 0 && job_.checkpoint.is_on()) take();
  if (claim_.generation == 0) return;
  first_rank_claims([&] { checkpoint::decide_parent(storage_, root_, claim_, parent_, log_); });
  if (!job_.checkpoint.is_on()) return;
  read_data();
  saver_.emplace(storage_, root_, claim_, rank_.number(), rank_.mesh().world_size(), job_.checkpoint.keep,
                 log_);
  schedule_.emplace(job_.checkpoint, interruptions_of(root_, claim_.generation), now());
  stop_.emplace();
  background_.emplace("muster-save");
}

// Rank 0 does `body` to the claim, and all know what became of it.
void Checkpoints::first_rank_claims(const std::function<void()>& body) {
  checkpoint::Failure own;
  try {
    if (leads()) body();
  } catch (const std::exception&) {
    own = checkpoint::Failure::of_current_exception();
  }
  const std::string why = checkpoint::first_failure(assembly_, rank_.number(), own);
  if (!why.empty()) throw WorldError(WorldError::Kind::disk, "checkpoints cannot be written: " + why);
  Json mine;
  if (leads()) mine = {{"generation", claim_.generation}, {"incarnation", claim_.incarnation}};
  for (const std::string& text : assembly_.gather(mine.dump())) {
    const Json told = Json::parse(text);
    if (told.is_null()) continue;
    claim_.generation = told["generation"];
    claim_.incarnation = told["incarnation"];
  }
  claim_.parent = parent_;
}

Checkpoints::Due Checkpoints::look(int64_t step) {
  if (!is_on()) return {};
  Due due;
  due.save = schedule_->is_due(step) || step == job_.training.steps;
  // A wish that comes back while a save is under way is dropped, and would stand in the way of all later
  // ones.
  if (leads() && !wish_is_out_ && !under_way_) wishes_ = schedule_->is_time(now());
  collect();
  const std::optional<Ballot> agreed = votes_.exchange(ballot());
  wish_is_out_ |= wishes_;
  if (agreed) {
    read_stop(agreed->stop_signal);
    due.stop_signal = static_cast<int>(agreed->stop_signal);
    due.save |= agreed->save_now != 0 && !under_way_;
    due.save |= due.stop_signal != 0;
    advance(*agreed);
  }
  due.durable = std::exchange(news_, std::nullopt);
  return due;
}

void Checkpoints::save(int64_t step) {
  const double start = now();
  job_.checkpoint.async ? save_beside(step) : save_at_once(step);
  wishes_ = wish_is_out_ = false;
  const std::optional<double> before = schedule_->adaptive_seconds(start);
  schedule_->saved(start, now() - start);
  // Said again where it has changed much.
  const std::optional<double> after = schedule_->adaptive_seconds(now());
  if (leads() && after && (!before || std::abs(*after / *before - 1) > 0.2))
    log_.info("{}", schedule_->reason(now()));
}

void Checkpoints::save_at_once(int64_t step) {
  const double start = now();
  background_->wait();  // what it takes away makes room
  if (leads()) log_.info("checkpoint of step {}: requested", step);
  const checkpoint::SaveOutcome outcome = saver_->save(assembly_, state_, facts(step));
  if (outcome.is_durable()) acknowledge(outcome.name, outcome.bytes, now() - start);
  if (!leads()) return;
  if (outcome.is_durable())
    background_->start([this, name = outcome.name] { saver_->tidy(name); });
  else
    log_.error("checkpoint {} was given up, and training goes on: {}", to_string(outcome.name),
               outcome.failure);
}

void Checkpoints::save_beside(int64_t step) {
  if (under_way_) {
    if (leads())
      log_.warning("checkpoint of step {}: that of step {} is still being written, and training waits for it",
                   step, under_way_->step);
    finish();
  }
  background_->wait();  // a save that others gave up may still use the snapshot
  if (leads()) log_.info("checkpoint of step {}: requested", step);
  failure_ = {};
  under_way_ = {++begun_, step, now(), saver_->begin(facts(step)), false, false};
  try {
    const bool is_first = snapshot_.bytes() == 0;
    snapshot_.take(state_, rank_.number());
    if (leads() && is_first)
      log_.info("snapshots take {} of host memory on this rank", format_bytes(snapshot_.bytes()));
  } catch (const std::exception&) {
    failure_ = checkpoint::Failure::of_current_exception();
    return;
  }
  in_background([this, save = under_way_->save, bytes = checkpoint::whole_bytes(state_)] {
    if (leads()) saver_->make_folder(*save, bytes);
    saver_->write_own(*save, snapshot_.state());
  });
}

void Checkpoints::in_background(std::function<void()> body) {
  background_->start([this, body = std::move(body)] {
    try {
      body();
    } catch (const std::exception&) {
      failure_ = checkpoint::Failure::of_current_exception();
    }
  });
}

// What the background has come to since the last look.
void Checkpoints::collect() {
  if (!under_way_) return;
  const int64_t number = under_way_->number;
  if (grace_is_over() && failed_ < number && durable_ < number) {
    under_way_->save->given_up = true;
    storage_.give_up();
    failed_ = number;
  }
  if (background_->is_busy() || failed_ >= number) return;
  if (!failure_.text.empty()) {
    failed_ = number;
  } else if (!under_way_->commits) {
    written_ = number;
  } else if (!under_way_->acknowledged) {
    durable_ = number;
    under_way_->acknowledged = true;
    acknowledge(under_way_->save->manifest.name, committed_bytes_, now() - under_way_->requested_seconds);
  }
}

Ballot Checkpoints::ballot() const {
  return {.stop_signal = stop_->signal(),
          .save_now = wishes_ && !wish_is_out_ ? 1 : 0,
          .failed = failed_,
          .behind = -written_,
          .durable = durable_};
}

void Checkpoints::advance(const Ballot& agreed) {
  if (!under_way_) return;
  const int64_t number = under_way_->number;
  if (agreed.durable >= number) {
    newest_step_ = under_way_->step;
    under_way_.reset();
  } else if (agreed.failed >= number) {
    give_up();
  } else if (-agreed.behind >= number && leads() && !under_way_->commits) {
    under_way_->commits = true;
    in_background([this, save = under_way_->save] {
      committed_bytes_ = saver_->commit(*save, snapshot_.state());
      saver_->tidy(save->manifest.name);
    });
  }
}

void Checkpoints::acknowledge(const checkpoint::SetName& name, int64_t bytes, double seconds) {
  newest_step_ = name.step;
  schedule_->became_durable(seconds);
  if (!leads()) return;
  news_ = name.step;
  log_.info("checkpoint {}: durable, {} in {}", to_string(name), format_bytes(bytes),
            format_seconds(seconds));
}

// All ranks know that one failed. What this rank still writes ends by itself, and is removed with the rest.
void Checkpoints::give_up() {
  const UnderWay lost = *std::exchange(under_way_, std::nullopt);
  lost.save->given_up = true;
  checkpoint::Failure own;
  if (grace_is_over())
    own.text = fmt::format("the grace of {} s is over", job_.checkpoint.grace_seconds);
  else if (!background_->is_busy())
    own = failure_;
  const std::string why = checkpoint::first_failure(assembly_, rank_.number(), own);
  if (!leads()) return;
  log_.error("checkpoint {} was given up, and training goes on: {}", to_string(lost.save->manifest.name),
             why);
  in_background([this, save = lost.save] { saver_->discard(*save); });
}

void Checkpoints::finish() {
  if (!is_on()) return;
  votes_.drain();
  while (under_way_) {
    collect();
    const Ballot agreed = votes_.agree(ballot());
    read_stop(agreed.stop_signal);
    advance(agreed);
    if (under_way_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Checkpoints::read_stop(int64_t signal) {
  if (signal == 0 || stop_before_) return;
  const double asked = stop_->signal() != 0 ? stop_->seconds() : now();
  stop_before_ = asked + job_.checkpoint.grace_seconds;
}

bool Checkpoints::grace_is_over() const {
  return stop_before_ && now() > *stop_before_;
}

}  // namespace muster::train
