// What a run must remember, in one place. Whoever adds state to a rank registers it here, and only what is
// registered is saved and restored: parameters, the optimizer's states, its count of updates. Everything else
// is a function of the job and the step: the data order of the one global sample counter, the learning rate
// of the update's number, every random draw of seed, step and position.
#pragma once
#include "checkpoint/set/load.h"
#include "checkpoint/set/manifest.h"
#include "checkpoint/set/state.h"
#include "train/rank.h"

namespace muster::train {

// Replicas share the writing, by bytes, so that all disks and network cards of the run work: each part of a
// tensor is written by one of the ranks of the data axis that hold it.
checkpoint::State state_of(Rank& rank);

// The keys of the job that a replay depends on, as TOML. Those that change no bit (logging, evaluation,
// threads, checkpoints, timeouts) may differ between a run and its continuation; those that decide only who
// computes what, and so the order of sums, make another layout of it.
std::map<std::string, std::string> replayed_job(const spec::Job& job);
checkpoint::Expected expected_of(const spec::Job& job, int64_t world_size);
// What the run reads, for one rank to tell and to ask after: `data` of a manifest and of Expected. Reads the
// files.
std::vector<checkpoint::ManifestData> data_of(const spec::Job& job);

// What a checkpoint after update `step` says of the run.
checkpoint::Manifest facts_of(const spec::Job& job, int64_t world_size, int64_t step);
// Why a run of job.training.steps cannot go on from this checkpoint: it has fewer, or its learning rates up
// to here would have been others. Else a longer run would have had the same bits so far.
std::optional<Problem> rate_problem(const checkpoint::Manifest& manifest, const spec::Job& job);
// Throws WorldError(mismatch) where data cursor or rate and step of a loaded checkpoint disagree.
void check_cursor(const checkpoint::Manifest& manifest, const spec::Job& job);

}  // namespace muster::train
