#include "launch/environment.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace muster::launch {
namespace {

// Reads variables and gathers what is wrong with them.
class Reader {
 public:
  Reader(const Environment& environment, std::string launcher)
      : environment_(environment), launcher_(std::move(launcher)) {}

  std::string text(const std::string& name) {
    const std::optional<std::string> value = environment_(name);
    if (value && !value->empty()) return *value;
    problems_.add(name, "", "is missing, though " + launcher_ + " has set others",
                  "start all ranks with one launcher, or unset its variables");
    return "";
  }
  std::string text_or(const std::string& name, const std::string& otherwise) {
    return environment_(name).value_or(otherwise);
  }
  int64_t number(const std::string& name, int64_t least, int64_t most) {
    const std::string value = text(name);
    return value.empty() ? least : parse(name, value, least, most);
  }
  int64_t number_or(const std::string& name, int64_t otherwise, int64_t least, int64_t most) {
    const std::optional<std::string> value = environment_(name);
    return value ? parse(name, *value, least, most) : otherwise;
  }
  // `rank` must stand below `size`.
  void below(const char* rank_name, int64_t rank, const char* size_name, int64_t size) {
    if (rank >= size)
      problems_.add(rank_name, std::to_string(rank), fmt::format("must be below {} = {}", size_name, size),
                    "start all ranks with one launcher");
  }
  void no_more(const char* part_name, int64_t part, const char* whole_name, int64_t whole) {
    if (part > whole)
      problems_.add(part_name, std::to_string(part), fmt::format("is more than {} = {}", whole_name, whole),
                    "start all ranks with one launcher");
  }
  void finish() const { problems_.throw_if_any(); }

 private:
  int64_t parse(const std::string& name, const std::string& value, int64_t least, int64_t most) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size() && number >= least && number <= most)
      return number;
    problems_.add(name, value, fmt::format("must be a whole number from {} to {}", least, most),
                  launcher_ + " sets it; do not change it");
    return least;
  }

  const Environment& environment_;
  std::string launcher_;
  Problems problems_;
};

constexpr int64_t kMostRanks = 1 << 24;

void read_ranks(Reader& reader, comm::World& world) {
  world.size = reader.number("WORLD_SIZE", 1, kMostRanks);
  world.rank = reader.number("RANK", 0, kMostRanks - 1);
  world.local_rank = reader.number_or("LOCAL_RANK", 0, 0, kMostRanks - 1);
  world.local_size = reader.number_or("LOCAL_WORLD_SIZE", world.local_rank + 1, 1, kMostRanks);
  reader.below("RANK", world.rank, "WORLD_SIZE", world.size);
  reader.below("LOCAL_RANK", world.local_rank, "LOCAL_WORLD_SIZE", world.local_size);
  reader.no_more("LOCAL_WORLD_SIZE", world.local_size, "WORLD_SIZE", world.size);
}

comm::World from_muster(const Environment& environment) {
  Reader reader(environment, "muster");
  comm::World world;
  read_ranks(reader, world);
  world.store_file = reader.text("MUSTER_STORE");
  reader.finish();
  return world;
}

comm::World from_torchrun(const Environment& environment) {
  Reader reader(environment, "torchrun");
  comm::World world;
  read_ranks(reader, world);
  world.master_address = reader.text("MASTER_ADDR");
  world.master_port = static_cast<int>(reader.number("MASTER_PORT", 1, 65535));
  world.store_is_hosted = reader.text_or("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  world.store_prefix = fmt::format("muster/{}/{}", reader.text_or("TORCHELASTIC_RUN_ID", "none"),
                                   reader.text_or("TORCHELASTIC_RESTART_COUNT", "0"));
  reader.finish();
  return world;
}

// Below the range that the kernel gives out, so that no outgoing connection holds it.
int64_t slurm_port(int64_t job, int64_t step) {
  return 15000 + (job * 16 + step) % 16384;
}

int64_t slurm_local_size(Reader& reader, const comm::World& world) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const std::string list = reader.text_or(name, "");
    const int64_t node = reader.number_or("SLURM_NODEID", 0, 0, kMostRanks);
    if (const std::optional<int64_t> tasks = tasks_on_node(list, node)) return *tasks;
    if (const std::optional<int64_t> tasks = tasks_on_node(list, 0)) return *tasks;  // one number for all
  }
  return world.local_rank + 1;
}

comm::World from_slurm(const Environment& environment) {
  Reader reader(environment, "srun");
  comm::World world;
  world.size = reader.number("SLURM_NTASKS", 1, kMostRanks);
  world.rank = reader.number("SLURM_PROCID", 0, kMostRanks - 1);
  world.local_rank = reader.number("SLURM_LOCALID", 0, kMostRanks - 1);
  world.local_size = slurm_local_size(reader, world);
  reader.below("SLURM_PROCID", world.rank, "SLURM_NTASKS", world.size);
  reader.below("SLURM_LOCALID", world.local_rank, "the tasks of this node", world.local_size);
  reader.no_more("the tasks of this node", world.local_size, "SLURM_NTASKS", world.size);
  const int64_t job = reader.number("SLURM_JOB_ID", 0, INT64_C(1) << 40);
  const int64_t step = reader.number_or("SLURM_STEP_ID", 0, 0, INT64_C(1) << 33);
  const bool has_step_nodes = environment("SLURM_STEP_NODELIST").has_value();
  world.master_address = reader.text_or("MASTER_ADDR", "");
  if (world.master_address.empty())
    world.master_address =
        first_host(reader.text(has_step_nodes ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"));
  world.master_port = static_cast<int>(reader.number_or("MASTER_PORT", slurm_port(job, step), 1, 65535));
  world.store_prefix = fmt::format("muster/{}.{}", job, step);
  reader.finish();
  return world;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::optional<comm::World> world_from(const Environment& environment) {
  if (environment("MUSTER_STORE")) return from_muster(environment);
  if (environment("RANK") || environment("WORLD_SIZE")) return from_torchrun(environment);
  if (environment("SLURM_PROCID")) return from_slurm(environment);
  return std::nullopt;
}

std::string first_host(const std::string& node_list) {
  const size_t bracket = node_list.find('['), comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const size_t end = node_list.find_first_of(",-]", bracket + 1);
  const size_t close = node_list.find(']', bracket);
  if (close == std::string::npos) return "";
  const size_t next = node_list.find(',', close);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1) +
         first_host(node_list.substr(close + 1, next == std::string::npos ? next : next - close - 1));
}

std::optional<int64_t> tasks_on_node(const std::string& tasks_per_node, int64_t index) {
  const char* at = tasks_per_node.data();
  const char* const end = at + tasks_per_node.size();
  while (at < end) {
    int64_t tasks = 0, times = 1;
    auto parsed = std::from_chars(at, end, tasks);
    if (parsed.ec != std::errc() || tasks < 1) return std::nullopt;
    at = parsed.ptr;
    if (at < end && *at == '(') {  // "(x3)"
      if (end - at < 4 || at[1] != 'x') return std::nullopt;
      parsed = std::from_chars(at + 2, end, times);
      if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ')') return std::nullopt;
      at = parsed.ptr + 1;
    }
    if (index < times) return tasks;
    index -= times;
    if (at < end && *at++ != ',') return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace muster::launch
