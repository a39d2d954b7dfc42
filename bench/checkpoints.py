#!/usr/bin/env python3
"""Holds the checkpoints of muster to their targets, beside torch.distributed.checkpoint and `dd`, by turns.

Two processes share the state of bench/56m.toml at ZeRO 3 (PyTorch: FSDP2). Every figure is of the same disk in the
same round: seconds of a save, of what a save in the background stops, of a load; bytes a second to the disk; and
what saves in the background every 20 steps take from training beyond the copy of the state.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
from statistics import median

from side_by_side import ROOT, print_verdicts, run, verdicts, write_tokens

JOB = ROOT / "bench/56m.toml"
PROCESSES = 2
STEPS = 21


def train(program, folder, *words):
    run([program, "train", "--run", folder, "--procs", PROCESSES, *words])


def train_with(program, folder, **settings):
    """A new training; the lines of its steps."""
    shutil.rmtree(folder, ignore_errors=True)
    settings = {"layout.zero": 3, "data.sequence_length": 512} | {k.replace("__", "."): v for k, v in settings.items()}
    train(program, folder, JOB, *(word for k, v in settings.items() for word in ("--set", f"{k}={v}")))
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def stalls(lines):
    """What each save stopped, which the line after it tells."""
    return [after["checkpoint_seconds"] for line, after in zip(lines, lines[1:]) if line.get("checkpoint_requested")]


def saved_bytes(folder):
    newest = max((folder / "checkpoints").glob("step-*"))
    return sum(file.stat().st_size for file in newest.iterdir())


def load_seconds(program, folder):
    # One step more: a run that has finished is left alone.
    train(program, folder, "--resume", "--set", f"training.steps={STEPS + 1}")
    number, unit = re.findall(r"; read in ([\d.]+) (\w+)", (folder / "log.txt").read_text())[-1]
    return float(number) * {"s": 1, "ms": 1e-3}[unit]


def muster(program, folder):
    # Ten saves, of which two are kept: most of them find the pages of one that went, as in a long run.
    small = {"training__global_batch_size": 2, "training__steps": STEPS, "checkpoint__every": 2}
    at_once = train_with(program, folder / "at-once", checkpoint__async="false", **small)
    # Far enough apart that none waits for the one before it.
    apart = small | {"checkpoint__every": 4}
    beside = train_with(program, folder / "beside", checkpoint__async="true", **apart)
    return {"save": median(stalls(at_once)), "stall": median(stalls(beside)),
            "load": load_seconds(program, folder / "at-once"), "bytes": saved_bytes(folder / "at-once")}


def pytorch(folder):
    output = run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}",
                  ROOT / "bench/torch_checkpoint.py", JOB, folder])
    return json.loads(output.splitlines()[-1])


def dd_seconds(folder, checkpoint):
    """The same bytes, from the page cache to the same disk, on it when dd returns."""
    files = sorted(max((checkpoint / "checkpoints").glob("step-*")).glob("*.st"))
    copies = [folder / f"dd.{number}" for number in range(len(files))]
    start = time.perf_counter()
    running = [subprocess.Popen(["dd", f"if={file}", f"of={copy}", "bs=8M", "conv=fsync", "status=none"])
               for file, copy in zip(files, copies)]
    if any(process.wait() for process in running):
        sys.exit("bench: dd failed")
    seconds = time.perf_counter() - start
    for copy in copies:
        copy.unlink()
    return seconds


def training_seconds(lines):
    """Of all steps but the first, without what saves stopped between them."""
    return sum(line["step_seconds"] for line in lines[1:])


def share_taken(program, folder):
    """What saves every 20 steps take from the steps beside them."""
    quiet = {"training__global_batch_size": 4, "training__steps": 41}
    without = training_seconds(train_with(program, folder / "without", **quiet))
    saving = training_seconds(train_with(program, folder / "saving", checkpoint__every=20, checkpoint__async="true",
                                         **quiet))
    return saving / without - 1


def one_round(program, folder, with_share):
    sides = {"muster": muster(program, folder)}
    sides["dd"] = {"save": dd_seconds(folder, folder / "at-once")}
    sides["pytorch"] = pytorch(folder / "torch")
    if with_share:
        sides["share"] = share_taken(program, folder)
    return sides


def times(name):
    return lambda sides: sides["pytorch"][name] / sides["muster"][name]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-share", action="store_true", help="leave out the trainings of 41 steps, 5 minutes a round")
    arguments = parser.parse_args()
    program, folder = arguments.build.resolve() / "muster", arguments.build.resolve() / "bench/checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_tokens(JOB)
    rounds = []
    for number in range(arguments.rounds):
        rounds.append(one_round(program, folder, not arguments.without_share))
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", flush=True)
    targets = {"save, PyTorch to muster": (times("save"), ">=", 1.5),
               "stall, PyTorch to muster": (times("stall"), ">=", 1.5),
               "load, PyTorch to muster": (times("load"), ">=", 1.5),
               "bandwidth, muster to dd": (lambda sides: sides["dd"]["save"] / sides["muster"]["save"], ">=", 0.9)}
    if not arguments.without_share:
        targets["steps, taken by saves"] = (lambda sides: sides["share"], "<=", 0.01)
    found = list(verdicts(targets, rounds))
    print(f"state: {rounds[0]['muster']['bytes'] / 2**20:.0f} MiB by {PROCESSES} processes")
    print_verdicts(found)
    return 0 if all(v["passed"] for v in found) else 1


if __name__ == "__main__":
    sys.exit(main())
