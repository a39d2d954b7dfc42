#!/usr/bin/env python3
"""Runs muster and PyTorch by turns on one model and holds muster to its targets.

Each round runs four trainings, one after another: both programs, in one process and in two. A ratio is
formed within its round, so that a machine that slows down slows both sides; the median round counts.
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
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOB = ROOT / "bench/56m.toml"
TOKENS = ROOT / ".cache/bench/tokens.bin"
VOCABULARY, TOKEN_COUNT = 32000, 1 << 20


def write_tokens():
    """The same ids for both programs and for every run."""
    if TOKENS.exists():
        return
    TOKENS.parent.mkdir(parents=True, exist_ok=True)
    ids = array.array("H", random.Random(1).choices(range(VOCABULARY), k=TOKEN_COUNT))
    partial = TOKENS.with_suffix(".partial")
    partial.write_bytes(ids.tobytes())
    partial.rename(TOKENS)


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


def pytorch(processes, steps):
    launcher = [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    output = run([sys.executable, *launcher, ROOT / "bench/torch_peer.py", TOKENS, "--steps", steps])
    return json.loads(output.splitlines()[-1])


def muster(program, folder, processes, steps):
    shutil.rmtree(folder, ignore_errors=True)
    run([program, "train", JOB, "--run", folder, "--procs", processes, "--set", f"training.steps={steps}"])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    process = summary["process"]
    return {
        "processes": processes,
        "losses": [line["loss"] for line in lines],
        "step_seconds": [line["step_seconds"] for line in lines],
        "tokens_per_second": [line["tokens_per_second"] for line in lines[1:]],
        "start_to_first_step_seconds": summary["start_to_first_step_seconds"],
        "peak_bytes_above_libraries": process["peak_rss_bytes"] - process["rss_after_libraries_bytes"],
    }


def one_round(program, folder, steps):
    return {
        f"{name}{processes}": side(processes)
        for processes in (1, 2)
        for name, side in (("muster", lambda p: muster(program, folder / f"run{p}", p, steps)),
                           ("pytorch", lambda p: pytorch(p, steps)))
    }


def speed(result):
    return median(result["tokens_per_second"])


def check_same_problem(sides):
    """Both start from unlike random weights of one law, so their first losses are close, not equal."""
    first = [side["losses"][0] for side in sides.values()]
    if max(first) - min(first) > 0.1:
        sys.exit(f"bench: the two programs do not train the same model: first losses {first}")


def ratios_of(sides):
    m1, m2, p1, p2 = (sides[name] for name in ("muster1", "muster2", "pytorch1", "pytorch2"))
    return {
        "speed, one process": speed(m1) / speed(p1),
        "speed, two processes": speed(m2) / speed(p2),
        "two against twice one": speed(m2) / (2 * speed(m1)),
        "memory, one process": m1["peak_bytes_above_libraries"] / p1["peak_bytes_above_libraries"],
        "memory, two processes": m2["peak_bytes_above_libraries"] / p2["peak_bytes_above_libraries"],
        "seconds to first step": max(m["start_to_first_step_seconds"] for m in (m1, m2)),
    }


TARGETS = {
    "speed, one process": (">=", 1.10),
    "speed, two processes": (">=", 1.10),
    "two against twice one": (">=", 0.95),
    "memory, one process": ("<=", 0.75),
    "memory, two processes": ("<=", 0.75),
    "seconds to first step": ("<", 2.0),
}
HOLDS = {">=": lambda x, y: x >= y, "<=": lambda x, y: x <= y, "<": lambda x, y: x < y}


def verdicts(rounds):
    per_round = [ratios_of(sides) for sides in rounds]
    for name, (relation, target) in TARGETS.items():
        values = [ratios[name] for ratios in per_round]
        yield {"name": name, "median": median(values), "rounds": values, "relation": relation, "target": target,
               "passed": HOLDS[relation](median(values), target)}


def print_sides(rounds):
    print(f"\n{'':10}{'processes':>10}{'tokens/s':>12}{'peak MiB':>12}{'to step 1, s':>14}")
    for processes in (1, 2):
        for name in ("muster", "pytorch"):
            sides = [sides[f"{name}{processes}"] for sides in rounds]
            peak = median(s["peak_bytes_above_libraries"] for s in sides) / 2**20
            start = median(s["start_to_first_step_seconds"] for s in sides)
            print(f"{name:10}{processes:>10}{median(map(speed, sides)):>12.1f}{peak:>12.0f}{start:>14.2f}")


def print_verdicts(found):
    print(f"\n{'':24}{'median':>8}  {'rounds':24}{'target':>8}")
    for v in found:
        values = " ".join(f"{value:.3f}" for value in v["rounds"])
        word = "ok" if v["passed"] else "MISSED"
        print(f"{v['name']:24}{v['median']:>8.3f}  {values:24}{v['relation']:>3} {v['target']:.2f}  {word}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of each training; the first is not timed")
    arguments = parser.parse_args()
    program, folder = arguments.build.resolve() / "muster", arguments.build.resolve() / "bench"
    write_tokens()
    load_before = os.getloadavg()[0]
    print(f"bench: {arguments.rounds} rounds of four trainings, some 3 minutes each; load before {load_before:.2f}")
    rounds = []
    for number in range(arguments.rounds):
        rounds.append(one_round(program, folder, arguments.steps))
        check_same_problem(rounds[-1])
        print(f"round {number + 1}: " + ", ".join(f"{k} {speed(s):.1f} tokens/s" for k, s in rounds[-1].items()), flush=True)
    found = list(verdicts(rounds))
    results = folder / "results.json"
    results.write_text(json.dumps({"load_before": load_before, "rounds": rounds, "verdicts": found}, indent=1))
    print_sides(rounds)
    print_verdicts(found)
    print(f"\nbench: every figure is in {results}")
    return 0 if all(v["passed"] for v in found) else 1


if __name__ == "__main__":
    sys.exit(main())
