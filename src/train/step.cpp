// The walker: runs a step's list of actions.
#include <map>

#include "base/error.h"
#include "train/optim/learning_rate.h"
#include "train/rank.h"

namespace muster::train {

// The micro-batches between their forward and their backward, and the step's sums.
struct Rank::InFlight {
  struct MicroBatch {
    nn::MicroBatch batch;
    nn::Transformer::Saved saved;
  };
  int64_t step = 0;
  Totals totals;
  std::map<int32_t, MicroBatch> micro_batches;
  double data_wait_seconds = 0;
};

namespace {

telemetry::Span span_of(const schedule::Action& action, double start, double seconds) {
  const bool numbered =
      action.kind == schedule::ActionKind::forward || action.kind == schedule::ActionKind::backward;
  std::string name = to_string(action.kind);
  if (numbered) name += fmt::format(" {}", action.micro_batch);
  return {std::move(name), "host", start, seconds};
}

}  // namespace

// Values come and gradients go as the model walks through its units.
class Rank::Access final : public nn::UnitAccess {
 public:
  enum class Pass { forward, backward, last_backward };
  Access(Rank& rank, Pass pass) : rank_(rank), pass_(pass) {}
  void use_values(int64_t unit) override {
    // The last bucket of the backward before had half of this forward to arrive; the memory that it takes is
    // most needed at the end.
    if (pass_ == Pass::forward && unit == rank_.table_.units() / 2) rank_.reducer_->settle();
    rank_.values_->use(unit);
  }
  void leave_values(int64_t unit) override { rank_.values_->leave(unit); }
  void use_gradients(int64_t unit) override { rank_.reducer_->use(unit); }
  void gradients_done(int64_t unit) override {
    rank_.reducer_->unit_done(unit, pass_ == Pass::last_backward);
  }

 private:
  Rank& rank_;
  Pass pass_;
};

StepResult Rank::run_step(const Feed& feed, int64_t step, const PhaseObserver& observe) {
  parameters_->begin_step();
  values_->begin(uses_);
  InFlight flight{step, Totals(run_, groups_.on(spec::Span::tokens)), {}, 0};
  StepResult result;
  const double exposed_before = groups_.log().exposed_seconds;
  result.learning_rate = learning_rate(job_.optimizer, step, job_.training.steps);
  for (const schedule::Action& action : actions_) {
    if (observe) observe(to_string(action.kind), step, action.micro_batch);
    const double start = run_.clock().seconds();
    switch (action.kind) {
      case schedule::ActionKind::forward:
        forward(feed, action, flight);
        break;
      case schedule::ActionKind::backward:
        backward(action, flight);
        break;
      case schedule::ActionKind::reduce_finish:
        reducer_->finish();
        partial_sums_->run(run_);
        break;
      case schedule::ActionKind::update:
        run_.set_phase("update");
        run_.set_place("update");
        static_cast<UpdateResult&>(result) =
            ordered_update(run_, tensor_group(), *parameters_, flight.totals, *optimizer_,
                           result.learning_rate, job_.optimizer.gradient_clip);
        if (!result.skipped) values_->changed();
        break;
    }
    if (run_.record()) run_.record()->spans.push_back(span_of(action, start, run_.clock().seconds() - start));
  }
  result.exposed_communication_seconds = groups_.log().exposed_seconds - exposed_before;
  result.data_wait_seconds = flight.data_wait_seconds;
  if (const StateFile* file = optimizer_->file()) {
    const telemetry::StateFileFigures told = std::exchange(state_file_told_, file->figures());
    result.state_file = state_file_told_ - told;
  }
  return result;
}

void Rank::forward(const Feed& feed, const schedule::Action& action, InFlight& flight) {
  const double start = run_.clock().seconds();
  run_.set_phase("forward");
  run_.set_place("input");
  Loaded loaded = feed.load(run_, flight.step, action.micro_batch);
  flight.data_wait_seconds += run_.clock().seconds() - start;
  flight.totals.add_tokens(loaded.tokens);
  InFlight::MicroBatch& at = flight.micro_batches[action.micro_batch];
  at.batch = std::move(loaded.batch);
  Access access(*this, Access::Pass::forward);
  at.saved = model_->forward(run_, at.batch, flight.totals.loss_sum(), access);
}

void Rank::backward(const schedule::Action& action, InFlight& flight) {
  // All losses are summed by now: their message travels under the last backward.
  if (action.last_backward) flight.totals.start(run_);
  auto at = flight.micro_batches.extract(action.micro_batch);
  MUSTER_CHECK(!at.empty(), "backward of micro-batch {} before its forward", action.micro_batch);
  Access access(*this, action.last_backward ? Access::Pass::last_backward : Access::Pass::backward);
  model_->backward(run_, at.mapped().batch, at.mapped().saved, access);
}

double Rank::evaluate(const Feed& feed, int64_t batches) {
  Totals totals(run_, groups_.on(spec::Span::tokens));
  Access access(*this, Access::Pass::forward);
  const std::vector<schedule::Action> forwards(static_cast<size_t>(batches * feed.micro_batches()));
  values_->begin(uses_of(forwards, table_.units()));
  for (int64_t batch = 1; batch <= batches; ++batch)
    for (int64_t at = 0; at < feed.micro_batches(); ++at) {
      Loaded loaded = feed.load(run_, batch, at);
      totals.add_tokens(loaded.tokens);
      model_->evaluate(run_, loaded.batch, totals.loss_sum(), access);
    }
  totals.start(run_);
  const Totals::Values sums = totals.wait(run_);
  return sums.tokens > 0 ? sums.loss_sum / static_cast<double>(sums.tokens) : 0;
}

Rank::Recording::Recording(Rank& rank, telemetry::StepRecord& record) : rank_(rank) {
  device::Ledger& ledger = device::ledger(rank.run_.device().type());
  for (int category = 0; category < telemetry::kCategoryCount; ++category)
    record.live_at_start[category] = ledger.live(static_cast<telemetry::Category>(category));
  ledger.start_recording(&record.memory);
  rank.run_.set_record(&record);
  rank.groups_.log().record = &record;
}

Rank::Recording::~Recording() {
  rank_.run_.set_record(nullptr);
  rank_.groups_.log().record = nullptr;
  device::ledger(rank_.run_.device().type()).stop_recording();
}

}  // namespace muster::train
