#include "launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "launch/fault.h"

namespace muster::launch {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment of(Variables variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

// The fields that a UserError names, in order.
std::vector<std::string> refused(const Variables& variables) {
  try {
    world_from(of(variables));
  } catch (const UserError& error) {
    std::vector<std::string> fields;
    for (const Problem& problem : error.problems()) fields.push_back(problem.field);
    return fields;
  }
  return {};
}

TEST(Environment, without_a_launcher_is_one_process) {
  EXPECT_FALSE(world_from(of({})).has_value());
  EXPECT_FALSE(world_from(of({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}})).has_value());
}

TEST(Environment, of_torchrun) {
  const Variables variables = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "head"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RUN_ID", "job9"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}};
  const comm::World world = world_from(of(variables)).value();
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 8);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 4);
  EXPECT_EQ(world.master_address, "head");
  EXPECT_EQ(world.master_port, 29500);
  EXPECT_TRUE(world.store_is_hosted);
  EXPECT_EQ(world.store_prefix, "muster/job9/2");
}

TEST(Environment, of_torchrun_in_parts_names_every_fault) {
  EXPECT_EQ(refused({{"RANK", "0"}}), (std::vector<std::string>{"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}));
  EXPECT_EQ(refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
            (std::vector<std::string>{"RANK", "MASTER_PORT"}));
  EXPECT_EQ(refused({{"RANK", "x"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}),
            (std::vector<std::string>{"RANK"}));
}

TEST(Environment, of_srun) {
  Variables variables = {{"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "7"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                         {"SLURM_JOB_NODELIST", "node[03-05,9],login1"},
                         {"SLURM_JOB_ID", "123456"}};
  const comm::World world = world_from(of(variables)).value();
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.master_address, "node03");
  EXPECT_GE(world.master_port, 15000);
  EXPECT_LT(world.master_port, 32768);
  EXPECT_FALSE(world.store_is_hosted);
  EXPECT_EQ(world.store_prefix, "muster/123456.0");
  variables["SLURM_JOB_ID"] = "123457";
  EXPECT_NE(world_from(of(variables))->master_port, world.master_port);
  variables["MASTER_ADDR"] = "head";
  variables["MASTER_PORT"] = "4000";
  EXPECT_EQ(world_from(of(variables))->master_address, "head");
  EXPECT_EQ(world_from(of(variables))->master_port, 4000);
  variables.erase("SLURM_LOCALID");
  variables["SLURM_PROCID"] = "7";
  EXPECT_EQ(refused(variables), (std::vector<std::string>{"SLURM_LOCALID", "SLURM_PROCID"}));
}

TEST(Environment, reads_slurm_lists) {
  EXPECT_EQ(first_host("node[03-05,9],login1"), "node03");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("gpu7"), "gpu7");
  EXPECT_EQ(first_host("rack[2,4]-n[10-12]"), "rack2-n10");
  EXPECT_EQ(first_host("bad[3"), "");
  EXPECT_EQ(tasks_on_node("2(x3),1", 0), 2);
  EXPECT_EQ(tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(tasks_on_node("2(x3),1", 3), 1);
  EXPECT_EQ(tasks_on_node("2(x3),1", 4), std::nullopt);
  EXPECT_EQ(tasks_on_node("8", 0), 8);
  EXPECT_EQ(tasks_on_node("2(y3)", 0), std::nullopt);
  EXPECT_EQ(tasks_on_node("2(x", 0), std::nullopt);
  EXPECT_EQ(tasks_on_node("", 0), std::nullopt);
}

TEST(Fault, belongs_to_one_rank_and_is_checked) {
  const Variables variables = {{"MUSTER_FAULT", "rank=3,step=2,phase=backward,action=throw"}};
  Fault other = Fault::from(of(variables), 2), chosen = Fault::from(of(variables), 3);
  EXPECT_NO_THROW(other.at(Phase::backward, 2));
  EXPECT_NO_THROW(chosen.at(Phase::forward, 2));
  EXPECT_NO_THROW(chosen.at(Phase::backward, 1));
  EXPECT_THROW(chosen.at(Phase::backward, 2), Bug);
  EXPECT_NO_THROW(chosen.at(Phase::backward, 2));
  for (const char* text : {"rank=3", "rank=3,step=2,action=dance", "rank=x,step=2,action=kill", "rank"})
    EXPECT_THROW(Fault::from(of({{"MUSTER_FAULT", text}}), 3), UserError) << text;
}

}  // namespace
}  // namespace muster::launch
