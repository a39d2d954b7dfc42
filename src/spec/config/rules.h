// Rules between keys, gathered with the problems that reading left.
#pragma once
#include <initializer_list>
#include <set>
#include <string>

#include "base/error.h"
#include "spec/config/job.h"

namespace muster::spec {

// Somebody gave the key: it stands in the file, the environment or the command line.
bool is_given(const Job& job, const std::string& name);

// Checks of one job. A key that could not be read, or that a rule has refused, is distrusted: further rules
// that read it are passed over, so that one mistake is one problem.
class Rules {
 public:
  Rules(Job& job, Problems& problems, std::set<std::string> distrusted = {});

  const Job& job() const { return job_; }
  // Where `holds` is false, a problem on the first of `names`, the keys that the rule reads.
  void require(bool holds, std::initializer_list<const char*> names, const std::string& rule,
               const std::string& remedy);
  // Runs a check of its own on a key; what it throws is kept.
  template <class Check>
  void gather(const std::string& name, Check&& check) {
    if (!distrusts(name)) problems_.gather(check);
  }
  void refuse(const std::string& name, const std::string& rule, const std::string& remedy);
  bool distrusts(const std::string& name) const { return distrusted_.contains(name); }

 private:
  Job& job_;
  Problems& problems_;
  std::set<std::string> distrusted_;
};

// ---- validate.cpp ----
// Everything that can be known without a world, data or weights.
void check_rules(Rules& rules);
// What needs the sizes of the mesh: batch, heads. Sizes of 0 count as 1.
void check_divisions(Rules& rules);

// ---- idle.cpp ----
// Why the key has no effect in this job, though it may be given; empty where it has one.
std::string idle_reason(const Job& job, const std::string& name);
// Refuses keys that somebody gave, to another value than "off", and that have no effect.
void check_idle(Rules& rules);

// ---- supported.cpp ----
// Refuses what is described but not built yet.
void check_supported(Rules& rules);
// The same for the manual: "`layout.pipeline`: pipeline parallelism".
std::vector<std::string> not_built();

}  // namespace muster::spec
