#include "estimate/pipeline_timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace muster::estimate {
namespace {

Task task(Work work, int64_t micro_batch, int64_t chunk = 0) {
  return {work, micro_batch, chunk, 0, 0};
}

std::vector<Task> gpipe_order(int64_t micro_batches) {
  std::vector<Task> order;
  for (int64_t i = 0; i < micro_batches; ++i) order.push_back(task(Work::forward, i));
  for (int64_t i = 0; i < micro_batches; ++i) order.push_back(task(Work::backward, i));
  return order;
}

// `warm_up` forwards, then forward and backward in turn, then the rest of the backwards.
template <class Forward, class Backward>
std::vector<Task> alternate(int64_t total, int64_t warm_up, Forward forward, Backward backward) {
  std::vector<Task> order;
  for (int64_t i = 0; i < warm_up; ++i) order.push_back(forward(i));
  for (int64_t i = 0; i < total; ++i) {
    if (warm_up + i < total) order.push_back(forward(warm_up + i));
    order.push_back(backward(i));
  }
  return order;
}

std::vector<Task> one_f_one_b_order(const PipelineShape& shape, int64_t stage) {
  const int64_t m = shape.micro_batches;
  return alternate(
      m, std::min(shape.stages - stage - 1, m), [](int64_t i) { return task(Work::forward, i); },
      [](int64_t i) { return task(Work::backward, i); });
}

// Micro-batches go in groups of p through chunk 0, then 1, ...; backward through the chunks in reverse.
std::vector<Task> interleaved_order(const PipelineShape& shape, int64_t stage) {
  const int64_t p = shape.stages, v = shape.chunks, total = shape.micro_batches * v;
  MUSTER_CHECK(shape.micro_batches % p == 0, "{} micro-batches over {} stages", shape.micro_batches, p);
  const auto at = [=](Work work, int64_t i) {
    const int64_t chunk = i % (p * v) / p;
    return task(work, i / (p * v) * p + i % p, work == Work::forward ? chunk : v - 1 - chunk);
  };
  const int64_t warm_up = std::min(2 * (p - stage - 1) + (v - 1) * p, total);
  return alternate(
      total, warm_up, [&](int64_t i) { return at(Work::forward, i); },
      [&](int64_t i) { return at(Work::backward, i); });
}

// 1F1B whose weight gradients wait until the stage would hold more than p micro-batches, and fill the drain.
std::vector<Task> zb_h1_order(const PipelineShape& shape, int64_t stage) {
  std::vector<Task> order;
  int64_t forwards = 0, backwards = 0, weights = 0;
  for (const Task& next : one_f_one_b_order(shape, stage)) {
    if (next.work == Work::forward && forwards - weights == shape.stages)
      order.push_back(task(Work::weight, weights++));
    order.push_back(next);
    (next.work == Work::forward ? forwards : backwards) += 1;
    if (forwards == shape.micro_batches && next.work == Work::backward)
      order.push_back(task(Work::weight, weights++));
  }
  while (weights < backwards) order.push_back(task(Work::weight, weights++));
  return order;
}

constexpr double kNotYet = -1;

// End times of forwards and backwards by virtual stage (chunk * p + stage) and micro-batch.
class Ends {
 public:
  explicit Ends(const PipelineShape& shape)
      : shape_(shape),
        forward_(static_cast<size_t>(shape.stages * shape.chunks * shape.micro_batches), kNotYet),
        backward_(forward_) {}

  // When the input of a task is there; kNotYet before that is known.
  double input(const Task& task, int64_t stage) const {
    const int64_t place = task.chunk * shape_.stages + stage;
    const int64_t last = shape_.stages * shape_.chunks - 1;
    switch (task.work) {
      case Work::forward:
        return place == 0 ? 0 : forward_[index(place - 1, task.micro_batch)];
      case Work::backward:
        return place == last ? forward_[index(place, task.micro_batch)]
                             : backward_[index(place + 1, task.micro_batch)];
      case Work::weight:
        return backward_[index(place, task.micro_batch)];
    }
    return 0;
  }
  void set(const Task& task, int64_t stage) {
    if (task.work == Work::weight) return;
    auto& ends = task.work == Work::forward ? forward_ : backward_;
    ends[index(task.chunk * shape_.stages + stage, task.micro_batch)] = task.end;
  }

 private:
  size_t index(int64_t place, int64_t micro_batch) const {
    return static_cast<size_t>(place * shape_.micro_batches + micro_batch);
  }
  PipelineShape shape_;
  std::vector<double> forward_, backward_;
};

double duration(Work work, Schedule schedule, const PipelineShape& shape, double stage_time) {
  const double third = stage_time / 3 / static_cast<double>(shape.chunks);
  return work == Work::backward && schedule != Schedule::zb_h1 ? 2 * third : third;
}

char chunk_letter(int64_t chunk) {
  return static_cast<char>('a' + chunk % 26);
}

std::string draw_stage(const std::vector<Task>& tasks, double cell, size_t width, size_t cells, bool chunks) {
  std::string line(cells * width, ' ');
  for (size_t at = 0; at < cells; ++at) line[at * width] = '.';
  for (const Task& task : tasks) {
    const auto first = static_cast<size_t>(std::llround(task.start / cell));
    const auto end = static_cast<size_t>(std::llround(task.end / cell));
    for (size_t at = first; at < end; ++at)
      line.replace(at * width, width, std::string(width - 1, '=') + ' ');
    std::string name = static_cast<char>(task.work) + std::to_string(task.micro_batch);
    if (chunks) name += chunk_letter(task.chunk);
    name.resize(width, ' ');
    line.replace(first * width, width, name);
  }
  return line;
}

}  // namespace

std::vector<Task> stage_order(Schedule schedule, const PipelineShape& shape, int64_t stage) {
  switch (schedule) {
    case Schedule::gpipe:
      return gpipe_order(shape.micro_batches);
    case Schedule::one_f_one_b:
      return one_f_one_b_order(shape, stage);
    case Schedule::interleaved:
      return interleaved_order(shape, stage);
    case Schedule::zb_h1:
      return zb_h1_order(shape, stage);
  }
  return {};
}

Timeline run_pipeline(Schedule schedule, const PipelineShape& shape, const std::vector<double>& stage_times) {
  Timeline timeline;
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    timeline.stages.push_back(stage_order(schedule, shape, stage));
  Ends ends(shape);
  std::vector<size_t> next(timeline.stages.size(), 0);
  std::vector<double> free_at(timeline.stages.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < next.size(); ++stage) {
      for (auto& order = timeline.stages[stage]; next[stage] < order.size(); ++next[stage], moved = true) {
        Task& task = order[next[stage]];
        const double ready = ends.input(task, static_cast<int64_t>(stage));
        if (ready == kNotYet) break;
        task.start = std::max(ready, free_at[stage]);
        task.end = free_at[stage] = task.start + duration(task.work, schedule, shape, stage_times[stage]);
        ends.set(task, static_cast<int64_t>(stage));
      }
    }
  }
  for (size_t stage = 0; stage < next.size(); ++stage)
    MUSTER_CHECK(next[stage] == timeline.stages[stage].size(), "stage {} waits for ever", stage);
  timeline.end = *std::max_element(free_at.begin(), free_at.end());
  return timeline;
}

double Timeline::busy(int64_t stage) const {
  double seconds = 0;
  for (const Task& task : stages[static_cast<size_t>(stage)]) seconds += task.end - task.start;
  return seconds;
}

double Timeline::efficiency() const {
  double busy_seconds = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) busy_seconds += busy(static_cast<int64_t>(stage));
  return busy_seconds / (end * static_cast<double>(stages.size()));
}

int64_t Timeline::most_in_flight(int64_t stage) const {
  const auto& tasks = stages[static_cast<size_t>(stage)];
  const bool split =
      std::any_of(tasks.begin(), tasks.end(), [](const Task& t) { return t.work == Work::weight; });
  const Work last = split ? Work::weight : Work::backward;
  int64_t now = 0, most = 0;
  for (const Task& task : tasks) {
    if (task.work == Work::forward) most = std::max(most, ++now);
    if (task.work == last) --now;
  }
  return most;
}

std::string draw(const Timeline& timeline, size_t columns) {
  double cell = std::numeric_limits<double>::infinity();
  int64_t most_micro_batch = 0, most_chunk = 0;
  for (const auto& stage : timeline.stages)
    for (const Task& task : stage) {
      cell = std::min(cell, task.end - task.start);
      most_micro_batch = std::max(most_micro_batch, task.micro_batch);
      most_chunk = std::max(most_chunk, task.chunk);
    }
  const size_t width = 2 + std::to_string(most_micro_batch).size() + (most_chunk > 0 ? 1 : 0);
  const auto cells = static_cast<size_t>(std::llround(timeline.end / cell));
  std::string text;
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string line = fmt::format("stage {:>2} |", stage) +
                       draw_stage(timeline.stages[stage], cell, width, cells, most_chunk > 0);
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.size() > columns) line = line.substr(0, columns - 4) + " ...";
    text += line + "\n";
  }
  return text;
}

}  // namespace muster::estimate
