// A mixture of sets whose weights may change at given global samples.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/order/fair_schedule.h"
#include "spec/config/job.h"

namespace muster::data {

class Mixture {
 public:
  // An entry sets the weight of its path from its sample on; the weights of other paths stay. Throws
  // UserError where nothing has a weight at sample 0, or a path is given two weights at one sample.
  explicit Mixture(const std::vector<spec::DataSource>& sources);

  // Every path once, in order of appearance; a Draw's set is an index into this.
  const std::vector<std::string>& paths() const { return paths_; }
  // Where global sample `sample` comes from. Counts go on through changes of weight.
  Draw draw(int64_t sample) const;

 private:
  struct Phase {
    int64_t from_sample = 0;
    std::unique_ptr<FairSchedule> schedule;
    std::vector<int64_t> drawn_before;  // by set
  };

  std::vector<std::string> paths_;
  std::vector<Phase> phases_;
};

}  // namespace muster::data
