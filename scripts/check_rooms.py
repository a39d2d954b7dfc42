#!/usr/bin/env python3
"""Rejects an include that goes up the list of rooms, or that brings torch above its line."""
import pathlib
import re
import sys

ROOMS = ["base", "spec", "telemetry", "schedule", "estimate", "report",
         "device", "comm", "data", "nn", "checkpoint", "launch", "train", "plan", "verify", "cli"]
TORCH_FROM = ROOMS.index("device")
TORCH = re.compile(r'^\s*#\s*include\s*[<"](ATen|c10|torch|caffe2)/')
OWN = re.compile(r'^\s*#\s*include\s*"([a-z_]+)/')

def faults(root):
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        room = path.relative_to(root).parts[0]
        if room not in ROOMS:
            yield f"{path}: no such room '{room}'"
            continue
        floor = ROOMS.index(room)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            own = OWN.match(line)
            if own and own.group(1) in ROOMS and ROOMS.index(own.group(1)) > floor:
                yield f"{path}:{number}: {room} includes {own.group(1)}, which is below it"
            if TORCH.match(line) and floor < TORCH_FROM:
                yield f"{path}:{number}: {room} is above the torch line"

def main():
    found = list(faults(pathlib.Path(__file__).resolve().parent.parent / "src"))
    print("\n".join(found) if found else f"rooms: ok, {len(ROOMS)} in order")
    return 1 if found else 0

sys.exit(main())
