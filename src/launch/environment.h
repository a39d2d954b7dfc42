// How this process was started, read from its environment. Three dialects, the first that is there wins:
//
//   muster   MUSTER_STORE (a file of our launcher's) with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
//   torchrun RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK, LOCAL_WORLD_SIZE (0 and 1 without them);
//            TORCHELASTIC_USE_AGENT_STORE=True: the agent serves the store;
//            TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT: the keys' prefix
//   srun     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_JOB_ID, SLURM_STEP_ID,
//            SLURM_NTASKS_PER_NODE or SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE ("2(x3),1");
//            rank 0 serves the store on the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, at a
//            port made of the job's and the step's id; MASTER_ADDR and MASTER_PORT override these
//
// An allocation's own shell (salloc, sbatch) has SLURM_JOB_ID but no SLURM_PROCID: that is no srun.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.h"

namespace muster::launch {

// The value of a variable, or nothing; a test gives its own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Nothing where no launcher is at work: one process, alone. UserError naming every variable that is missing,
// not a number, or at odds with another.
std::optional<comm::World> world_from(const Environment& environment);

// The first host of a Slurm node list: "node[03-05,9],login1" -> "node03".
std::string first_host(const std::string& node_list);
// Tasks on the node at `index`: ("2(x3),1", 3) -> 1. Nothing where the list says otherwise or ends before.
std::optional<int64_t> tasks_on_node(const std::string& tasks_per_node, int64_t index);

}  // namespace muster::launch
