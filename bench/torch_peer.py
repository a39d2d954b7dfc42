#!/usr/bin/env python3
"""PyTorch's side of the comparison: the model of a job, trained as PyTorch's users train it.

One process runs an eager loop; under torchrun --layout says how the processes share the work, over Gloo:
DistributedDataParallel, DTensor's tensor parallelism (without and with sequence parallelism, loss over the
split vocabulary), or FSDP2 (with Gloo's reduce-scatter, or with a faster one). All do what `muster train JOB`
does: a Llama in fp32, the job's micro-batches, gradients clipped by their norm, AdamW. Prints one JSON object,
from rank 0.
"""
import argparse
import contextlib
import json
import os
import time
import tomllib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                               SequenceParallel, loss_parallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

MATMULS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear"}


def memory_bytes(field):
    """One line of /proc/self/status, such as VmRSS (now) or VmHWM (the most so far)."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def seconds_since_process_start():
    with open("/proc/self/stat", encoding="ascii") as stat:
        start_ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


class Job:
    """What a job's file says, under the file's own names."""

    def __init__(self, path):
        with open(path, "rb") as file:
            sections = tomllib.load(file)
        self.tokens = os.path.join(os.path.dirname(path), sections["data"]["path"])
        for section in ("model", "data", "training", "optimizer"):
            self.__dict__.update(sections[section])
        self.head_dim = self.hidden_size // self.num_attention_heads
        self.micro_batches = self.global_batch_size // self.micro_batch_size


def rotary_tables(job):
    frequency = job.rope_theta ** (-torch.arange(0, job.head_dim, 2, dtype=torch.float32) / job.head_dim)
    angle = torch.outer(torch.arange(job.sequence_length, dtype=torch.float32), frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.head_dim = job.head_dim
        width, kv_width = (heads * job.head_dim for heads in (job.num_attention_heads, job.num_key_value_heads))
        self.q_proj = nn.Linear(job.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(job.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(job.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(width, job.hidden_size, bias=False)

    def forward(self, x, cos, sin):
        batch, sequence, _ = x.shape
        q, k, v = (projection(x).view(batch, sequence, -1, self.head_dim).transpose(1, 2)
                   for projection in (self.q_proj, self.k_proj, self.v_proj))
        mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v,
                                               is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, sequence, -1))


class SwiGLU(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.gate_proj = nn.Linear(job.hidden_size, job.intermediate_size, bias=False)
        self.up_proj = nn.Linear(job.hidden_size, job.intermediate_size, bias=False)
        self.down_proj = nn.Linear(job.intermediate_size, job.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.input_norm = nn.RMSNorm(job.hidden_size, eps=job.rms_norm_eps)
        self.attention = Attention(job)
        self.post_attention_norm = nn.RMSNorm(job.hidden_size, eps=job.rms_norm_eps)
        self.mlp = SwiGLU(job)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_attention_norm(x))


class Llama(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.embed_tokens = nn.Embedding(job.vocab_size, job.hidden_size)
        self.layers = nn.ModuleList(Block(job) for _ in range(job.num_hidden_layers))
        self.norm = nn.RMSNorm(job.hidden_size, eps=job.rms_norm_eps)
        self.lm_head = nn.Linear(job.hidden_size, job.vocab_size, bias=False)
        cos, sin = rotary_tables(job)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.lm_head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def share_layers(model, sequence):
    """Megatron's split by DTensor. With `sequence`, norms and the residual stream are sharded along it."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    stream = Shard(1) if sequence else Replicate()
    split = {"use_local_output": False}
    outer = {"embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
             "lm_head": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), **split)}
    inner = {"attention.q_proj": ColwiseParallel(), "attention.k_proj": ColwiseParallel(),
             "attention.v_proj": ColwiseParallel(), "attention.o_proj": RowwiseParallel(output_layouts=stream),
             "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(),
             "mlp.down_proj": RowwiseParallel(output_layouts=stream)}
    if sequence:
        outer["norm"] = SequenceParallel()
        inner |= {"input_norm": SequenceParallel(), "post_attention_norm": SequenceParallel(),
                  "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None),
                                                  desired_input_layouts=(Replicate(), None, None)),
                  "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))}
    parallelize_module(model, mesh, outer)
    for layer in model.layers:
        parallelize_module(layer, mesh, inner)


class ExchangedReduceScatter(DefaultReduceScatter):
    """Half the bytes of Gloo's own, which is a copy and an all-reduce: every rank sends each its part and sums."""

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        parts = torch.empty_like(input_tensor)
        dist.all_to_all_single(parts, input_tensor, group=group)
        torch.sum(parts.view(group.size(), -1), 0, out=output_tensor)
        if op == dist.ReduceOp.AVG:
            output_tensor.div_(group.size())


def shard_states(model, exchanged):
    units = [fully_shard(layer) for layer in model.layers] + [fully_shard(model)]
    if exchanged:
        for unit in units:
            unit.set_custom_reduce_scatter(ExchangedReduceScatter())


def clip(parameters, most):
    """clip_grad_norm_, which does not take DTensors and tensors together."""
    split = [p for p in parameters if isinstance(p, DTensor)]
    whole = [p for p in parameters if not isinstance(p, DTensor)]
    norms = [nn.utils.get_total_norm([p.grad for p in some]) for some in (split, whole) if some]
    total = torch.stack([n.full_tensor() if isinstance(n, DTensor) else n for n in norms]).norm()
    for some in (split, whole):
        if some:
            nn.utils.clip_grads_with_norm_(some, most, total)


def adamw(model, job, implementation):
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": decayed, "weight_decay": job.weight_decay}, {"params": others, "weight_decay": 0.0}]
    choice = {} if implementation == "default" else {implementation: True}
    return torch.optim.AdamW(groups, lr=job.learning_rate, betas=tuple(job.betas), eps=job.eps, **choice)


class Trainer:
    def __init__(self, arguments):
        self.job = job = Job(arguments.job)
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        # Two bytes an id; held as int16 because torch has no arithmetic on uint16, and ids stay under 2^15.
        self.ids = torch.from_file(job.tokens, size=os.path.getsize(job.tokens) // 2, dtype=torch.int16)
        torch.manual_seed(1)
        self.has_own_samples = True
        self.model = Llama(job)
        if self.world > 1:
            dist.init_process_group("gloo")
            self.share(arguments.layout)
        self.optimizer = adamw(self.model, job, arguments.adamw)

    def share(self, layout):
        if layout == "data":
            self.model = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        elif layout in ("shard", "shard-exchanged"):
            shard_states(self.model, layout == "shard-exchanged")
        else:
            share_layers(self.model, layout == "sequence")
            self.has_own_samples = False

    def samples(self, step, first):
        """Inputs and targets of one micro-batch, whose sequences start with number `first` of the step."""
        length, windows = self.job.sequence_length, (len(self.ids) - 1) // self.job.sequence_length
        numbers = range(step * self.job.global_batch_size + first, step * self.job.global_batch_size + first
                        + self.job.micro_batch_size)
        starts = [number % windows * length for number in numbers]
        rows = torch.stack([self.ids[start:start + length + 1] for start in starts]).long()
        return rows[:, :-1], rows[:, 1:]

    def backward(self, step, micro_batch, micro_batches):
        """The loss of one micro-batch; under DistributedDataParallel gradients travel with the last one only."""
        quiet = contextlib.nullcontext()
        if not self.has_own_samples:
            quiet = loss_parallel()
        elif isinstance(self.model, DistributedDataParallel) and micro_batch < micro_batches - 1:
            quiet = self.model.no_sync()
        first = self.rank * micro_batches if self.has_own_samples else 0
        samples = self.samples(step, (first + micro_batch) * self.job.micro_batch_size)
        with quiet:
            loss = self.model(*samples) / micro_batches
            loss.backward()
        loss = loss.detach()
        return loss.full_tensor() if isinstance(loss, DTensor) else loss

    def step(self, number):
        readers = self.world if self.has_own_samples else 1
        micro_batches = self.job.micro_batches // readers
        loss = sum(self.backward(number, m, micro_batches) for m in range(micro_batches))
        clip(list(self.model.parameters()), self.job.gradient_clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if readers > 1:
            dist.all_reduce(loss)
        return loss.item() / readers


def touch_libraries():
    """Makes torch load what it loads lazily (its matmul kernels, autograd), so that it is not charged to the run."""
    x = torch.ones(64, 64, requires_grad=True)
    (x @ x).sum().backward()


def matmul_share(trainer, step):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        trainer.step(step)
    events = profiler.key_averages()
    spent = {event.key: event.self_cpu_time_total for event in events}
    return sum(spent.get(name, 0) for name in MATMULS) / sum(spent.values())


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", help="TOML; its data a flat file of little-endian 16-bit ids")
    parser.add_argument("--steps", type=int, default=4, help="the first one warms up and is not timed")
    parser.add_argument("--layout", default="data", 
                        choices=["data", "tensor", "sequence", "shard", "shard-exchanged"])
    parser.add_argument("--adamw", default="fused", choices=["default", "foreach", "fused"])
    parser.add_argument("--profile", action="store_true", help="one more step: the share of time in matmuls")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    torch.set_num_threads(1)
    touch_libraries()
    libraries_bytes = memory_bytes("VmRSS")
    trainer = Trainer(arguments)
    first_step_seconds = seconds_since_process_start()
    losses, seconds, cpu_seconds = [], [], []
    for number in range(arguments.steps):
        start, cpu_start = time.perf_counter(), time.process_time()
        losses.append(trainer.step(number))
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    tokens = trainer.job.global_batch_size * trainer.job.sequence_length
    result = {
        "processes": trainer.world,
        "losses": losses,
        "step_seconds": seconds,
        "step_cpu_seconds": cpu_seconds,
        "tokens_per_second": [tokens / s for s in seconds[1:]],
        "start_to_first_step_seconds": first_step_seconds,
        "libraries_bytes": libraries_bytes,
        "peak_bytes_above_libraries": memory_bytes("VmHWM") - libraries_bytes,
    }
    if arguments.profile:
        result["matmul_share"] = matmul_share(trainer, arguments.steps)
    if trainer.rank == 0:
        print(json.dumps(result))
    if trainer.world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
