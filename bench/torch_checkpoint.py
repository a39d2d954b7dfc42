#!/usr/bin/env python3
"""PyTorch's side of the comparison of checkpoints: FSDP2 over Gloo, torch.distributed.checkpoint to a folder.

The state is that of bench/torch_peer.py's model after one step: parameters and AdamW's moments. Under torchrun;
prints one JSON object, from rank 0: medians of the seconds between two barriers of a save, of what an asynchronous
save stops, and of a load.
"""
import argparse
import json
import shutil
import time
from statistics import median

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from torch_peer import Trainer


def seconds_of(action):
    dist.barrier()
    start = time.perf_counter()
    action()
    dist.barrier()
    return time.perf_counter() - start


class Checkpointer:
    def __init__(self, trainer, folder):
        self.trainer, self.folder = trainer, folder
        self.background = dist.new_group(backend="gloo")
        self.future = None

    def state(self):
        model, optimizer = get_state_dict(self.trainer.model, self.trainer.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self):
        dcp.save(self.state(), checkpoint_id=f"{self.folder}/at-once")

    def begin(self):
        self.future = dcp.async_save(self.state(), checkpoint_id=f"{self.folder}/beside",
                                     process_group=self.background)

    def load(self):
        state = self.state()
        dcp.load(state, checkpoint_id=f"{self.folder}/at-once")
        set_state_dict(self.trainer.model, self.trainer.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])

    def round(self):
        times = {"save": seconds_of(self.save), "stall": seconds_of(self.begin)}
        self.future.result()
        return times | {"load": seconds_of(self.load)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job")
    parser.add_argument("folder")
    arguments = parser.parse_args()
    arguments.layout, arguments.adamw = "shard", "fused"
    torch.set_num_threads(1)
    trainer = Trainer(arguments)
    trainer.step(0)
    checkpointer = Checkpointer(trainer, arguments.folder)
    rounds = [checkpointer.round() for _ in range(10)]
    if trainer.rank == 0:
        print(json.dumps({name: median(times[name] for times in rounds) for name in rounds[0]}))
        shutil.rmtree(arguments.folder)
    dist.destroy_process_group()


main()
