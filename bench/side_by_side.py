#!/usr/bin/env python3
"""Runs muster and PyTorch by turns on one model and holds muster to its targets.

A suite names a job and trainings of it, each a program, a number of processes and how they share the work.
Each round runs all of them, one after another. A ratio is formed within its round, so that a machine that
slows down slows both sides; the median round counts.
"""
import argparse
import array
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKEN_COUNT = 1 << 20


def write_tokens(job):
    """The job's data: the same ids for both programs and for every run."""
    sections = tomllib.loads(job.read_text())
    path = job.parent / sections["data"]["path"]
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = array.array("H", random.Random(1).choices(range(sections["model"]["vocab_size"]), k=TOKEN_COUNT))
    partial = path.with_suffix(".partial")
    partial.write_bytes(ids.tobytes())
    partial.rename(path)


def environment():
    """One thread a process, and the C library's own malloc untouched, on both sides."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_", "LD_PRELOAD"))}
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    return kept | one_thread | {"GLOO_SOCKET_IFNAME": "lo"}


def run(command):
    done = subprocess.run([str(word) for word in command], env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def pytorch(side, job, steps):
    processes = side["processes"]
    launcher = [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    output = run([sys.executable, *launcher, ROOT / "bench/torch_peer.py", job, "--steps", steps,
                  "--layout", side.get("layout", "data")])
    return json.loads(output.splitlines()[-1])


def pair(side, job, steps, program, folder):
    """Two trainings at once that share nothing but the machine: what two cores give without a message."""
    with ThreadPoolExecutor() as pool:
        alone = list(pool.map(lambda name: muster(side, job, steps, program, folder / name), ("first", "second")))
    rates = zip(*(one["tokens_per_second"] for one in alone))
    return alone[0] | {"processes": 2, "tokens_per_second": [sum(step) for step in rates]}


def muster(side, job, steps, program, folder):
    shutil.rmtree(folder, ignore_errors=True)
    settings = [f"training.steps={steps}", *side.get("set", [])]
    run([program, "train", job, "--run", folder, "--procs", side["processes"],
         *(word for setting in settings for word in ("--set", setting))])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    process = summary["process"]
    return {
        "processes": side["processes"],
        "losses": [line["loss"] for line in lines],
        "step_seconds": [line["step_seconds"] for line in lines],
        "tokens_per_second": [line["tokens_per_second"] for line in lines[1:]],
        "start_to_first_step_seconds": summary["start_to_first_step_seconds"],
        "peak_bytes_above_libraries": process["peak_rss_bytes"] - process["rss_after_libraries_bytes"],
    }


def one_training(side, job, steps, program, folder):
    programs = {"muster": muster, "pair": pair, "pytorch": lambda side, job, steps, *_: pytorch(side, job, steps)}
    return programs[side["program"]](side, job, steps, program, folder)


def one_round(sides, job, program, folder, steps):
    return {name: one_training(side, job, steps, program, folder / name) for name, side in sides.items()}


def speed(result):
    return median(result["tokens_per_second"])


def check_same_problem(sides):
    """Both start from unlike random weights of one law, so their first losses are close, not equal."""
    first = [side["losses"][0] for side in sides.values()]
    if max(first) - min(first) > 0.1:
        sys.exit(f"bench: the two programs do not train the same model: first losses {first}")


def ours(processes, *settings):
    return {"program": "muster", "processes": processes, "set": settings}


def two_alone(*settings):
    return ours(1, *settings) | {"program": "pair"}


def theirs(processes, layout="data"):
    return {"program": "pytorch", "processes": processes, "layout": layout}


def faster(mine, other, times=1):
    return lambda sides: speed(sides[mine]) / (times * speed(sides[other]))


def smaller(mine, other):
    peak = "peak_bytes_above_libraries"
    return lambda sides: sides[mine][peak] / sides[other][peak]


def first_step(*names):
    return lambda sides: max(sides[name]["start_to_first_step_seconds"] for name in names)


TENSOR_TRAININGS = {
    "muster1": ours(1), "tensor": ours(2, "layout.tensor=2"), "dtensor": theirs(2, "tensor"),
    "sequence": ours(2, "layout.tensor=2", "layout.sequence_parallel=true"), "dsequence": theirs(2, "sequence")}

LONG = ("data.sequence_length=4096", "training.global_batch_size=1")

# A suite: its job, steps of each training, trainings, and what must hold between them.
SUITES = {
    "data": (
        "56m", 4,
        {"muster1": ours(1), "pytorch1": theirs(1), "muster2": ours(2), "pytorch2": theirs(2)},
        {"speed, one process": (faster("muster1", "pytorch1"), ">=", 1.10),
         "speed, two processes": (faster("muster2", "pytorch2"), ">=", 1.10),
         "two against twice one": (faster("muster2", "muster1", 2), ">=", 0.95),
         "memory, one process": (smaller("muster1", "pytorch1"), "<=", 0.75),
         "memory, two processes": (smaller("muster2", "pytorch2"), "<=", 0.75),
         "seconds to first step": (first_step("muster1", "muster2"), "<", 2.0)}),
    "tensor": (
        "56m", 4,
        TENSOR_TRAININGS,
        {"speed, tensor": (faster("tensor", "dtensor"), ">=", 1.20),
         "speed, sequence": (faster("sequence", "dsequence"), ">=", 1.20),
         "tensor against twice one": (faster("tensor", "muster1", 2), ">=", 0.70),
         "memory, tensor": (smaller("tensor", "dtensor"), "<=", 0.85),
         "memory, sequence": (smaller("sequence", "dsequence"), "<=", 0.85)}),
    "tiny": (
        "tiny", 40,
        TENSOR_TRAININGS,
        {"speed, tensor": (faster("tensor", "dtensor"), ">=", 4.0),
         "speed, sequence": (faster("sequence", "dsequence"), ">=", 4.0)}),
    "shard": (
        "56m", 4,
        {"muster1": ours(1), "zero3": ours(2, "layout.zero=3"), "fsdp": theirs(2, "shard"),
         "fsdp exchanged": theirs(2, "shard-exchanged"),
         "zero1": ours(2, "layout.zero=1"), "zero2": ours(2, "layout.zero=2"), "ddp": theirs(2)},
        {"speed, ZeRO 3 and FSDP2": (faster("zero3", "fsdp"), ">=", 1.30),
         "speed, the same, better reduce": (faster("zero3", "fsdp exchanged"), ">=", 1.30),
         "memory, ZeRO 3 and FSDP2": (smaller("zero3", "fsdp"), "<=", 0.70),
         "ZeRO 3 against twice one": (faster("zero3", "muster1", 2), ">=", 0.74),
         "speed, ZeRO 1 and DDP": (faster("zero1", "ddp"), ">=", 1.10),
         "speed, ZeRO 2 and DDP": (faster("zero2", "ddp"), ">=", 1.10)}),
    "context": (
        "56m", 4,
        {"muster1": ours(1), "two alone": two_alone(), "ring": ours(2, "layout.context=2"),
         "muster1 long": ours(1, *LONG), "two alone long": two_alone(*LONG), "ring long": ours(2, "layout.context=2", *LONG)},
        {"ring against twice one, 512": (faster("ring", "muster1", 2), ">=", 0.88),
         "ring against two alone, 512": (faster("ring", "two alone"), ">=", 0.88),
         "ring against twice one, 4096": (faster("ring long", "muster1 long", 2), ">=", 0.95),
         "ring against two alone, 4096": (faster("ring long", "two alone long"), ">=", 0.95)}),
}
HOLDS = {">=": lambda x, y: x >= y, "<=": lambda x, y: x <= y, "<": lambda x, y: x < y}


def verdicts(targets, rounds):
    for name, (ratio, relation, target) in targets.items():
        values = [ratio(sides) for sides in rounds]
        yield {"name": name, "median": median(values), "rounds": values, "relation": relation, "target": target,
               "passed": HOLDS[relation](median(values), target)}


def print_sides(rounds):
    width = max(map(len, rounds[0]))
    print(f"\n{'':{width}}{'processes':>11}{'tokens/s':>12}{'peak MiB':>12}{'to step 1, s':>14}")
    for name in rounds[0]:
        sides = [sides[name] for sides in rounds]
        peak = median(s["peak_bytes_above_libraries"] for s in sides) / 2**20
        start = median(s["start_to_first_step_seconds"] for s in sides)
        print(f"{name:{width}}{sides[0]['processes']:>11}{median(map(speed, sides)):>12.1f}{peak:>12.0f}{start:>14.2f}")


def print_verdicts(found):
    width = max(len(v["name"]) for v in found)
    print(f"\n{'':{width}}{'median':>8}  {'rounds':24}{'target':>8}")
    for v in found:
        values = " ".join(f"{value:.3f}" for value in v["rounds"])
        word = "ok" if v["passed"] else "MISSED"
        print(f"{v['name']:{width}}{v['median']:>8.3f}  {values:24}{v['relation']:>3} {v['target']:.2f}  {word}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--suite", choices=SUITES, default="data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of each training; the first is not timed")
    arguments = parser.parse_args()
    program, folder = arguments.build.resolve() / "muster", arguments.build.resolve() / "bench"
    model, steps, trainings, targets = SUITES[arguments.suite]
    job = ROOT / f"bench/{model}.toml"
    write_tokens(job)
    load_before = os.getloadavg()[0]
    print(f"bench: {arguments.rounds} rounds of {len(trainings)} trainings, {arguments.steps or steps} steps each; load before {load_before:.2f}")
    rounds = []
    for number in range(arguments.rounds):
        rounds.append(one_round(trainings, job, program, folder, arguments.steps or steps))
        check_same_problem(rounds[-1])
        print(f"round {number + 1}: " + ", ".join(f"{k} {speed(s):.1f} tokens/s" for k, s in rounds[-1].items()), flush=True)
    found = list(verdicts(targets, rounds))
    results = folder / f"{arguments.suite}.json"
    folder.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps({"load_before": load_before, "rounds": rounds, "verdicts": found}, indent=1))
    print_sides(rounds)
    print_verdicts(found)
    print(f"\nbench: every figure is in {results}")
    return 0 if all(v["passed"] for v in found) else 1


if __name__ == "__main__":
    sys.exit(main())
