"""A training step of every encoder and form on a GPU: its time, its memory, and how often it launches a kernel.

A contender is an encoder at the paper's sizes for masked language modelling with one form of its messages; a way is a
precision, eager or compiled. All have the same batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from probtrans_cli.data.corpus.batches import plan
from probtrans_cli.models import build

from .measure import MESSAGES, Batch, Step, resident_peak, seconds
from .settings import ROWS, STEP, Setting, flops, pair_flops

WAYS = ("bf16", "bf16 compiled", "fp32")
ENOUGH = 2.0
"""Seconds after which a cell needs no more rounds."""
SECTIONS = (("uv", None), ("shared", "shared"), ("rotary", "rotary"))
KERNELS = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "hipLaunchKernel", "hipExtModuleLaunchKernel")


@dataclass(frozen=True)
class Contender:
    """An encoder; ``messages``: the form of its messages, None: as an encoder has it. FLOPs: of a forward pass."""

    name: str
    section: dict[str, Any]
    width: int
    flops: float
    pair_flops: float
    messages: Any = None


def contenders(setting: Setting, longest: int) -> list[Contender]:
    """Both encoders, with every decomposition and form of the messages."""
    rows = []
    for form, messages in {**MESSAGES, "fused": "fused"}.items():
        for name, variant in SECTIONS:
            section = setting.section(variant)
            of_word, of_pair = flops(section), pair_flops(section)
            rows.append(Contender(f"{name}, {form}", section, int(section["labels"]), of_word, of_pair, messages))
    sizes = setting.transformer
    for name, dropped in (("transformer", True), ("transformer, no dropout of attention", False)):
        section = sizes.section(attention_dropout=dropped, rows=max(ROWS, longest))
        transformer = Contender(name, section, sizes.width, sizes.flops(), sizes.pair_flops())
        rows += [transformer, replace(transformer, name=f"{name}, fused", messages="fused")]
    # The usual ones first: where time runs out, the others are missing.
    return sorted(rows, key=lambda contender: contender.messages not in (None, "banded", "fused"))


def gpu_batches(lengths: Sequence[int], toy: bool) -> dict[str, list[int]]:
    """Lengths of the sentences of each batch by its name: the fullest of so many words, and single long sentences."""
    every, long = np.array(lengths), (24,) if toy else (512, 2048)
    sizes = {"40": 40} if toy else {"4k": 4096, "16k": 16384, "64k": 65536}
    found = {
        name: every[max(plan(every, words, 0, 0), key=lambda one: int(every[one].sum()))].tolist()
        for name, words in sizes.items()
    }
    return found | {f"1x{length}": [length] for length in long}


@dataclass
class Measured:
    """One contender on one batch in one way. ``work``: FLOPs of a step, of real words; ``failed``: why there is
    nothing."""

    contender: str
    batch: str
    way: str
    words: int
    work: float
    seconds: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    launches: int | None = None
    failed: str | None = None


def measured(
    contender: Contender, batches: dict[str, list[int]], ways: Sequence[str], setting: Setting, device: torch.device,
    *, backend: str, rounds: int, until: float,
) -> Iterator[Measured]:  # fmt: skip
    """A contender on all batches in all ways; ``until``: the moment after which nothing more is begun."""
    for way in ways:
        encoder: nn.Module | None = None
        for name, lengths in batches.items():
            work = STEP * (contender.flops * sum(lengths) + contender.pair_flops * sum(n * n for n in lengths))
            cell = Measured(contender.name, name, way, sum(lengths), work)
            if time.monotonic() > until:
                cell.failed = "no time left"
            else:
                try:
                    encoder = encoder or _encoder(contender, way, device, backend)
                    _measure(cell, encoder, contender, lengths, setting, device, rounds)
                except torch.OutOfMemoryError:
                    cell.failed = "did not fit"
                except Exception as error:  # what one cannot do must not cost the others' figures
                    cell.failed = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            if device.type == "cuda":
                torch.cuda.empty_cache()
            yield cell


def _encoder(contender: Contender, way: str, device: torch.device, backend: str) -> nn.Module:
    torch.manual_seed(0)
    how = {} if contender.messages is None else {"messages": contender.messages}
    encoder: Any = build(contender.section, **how).to(device).train()
    if way.endswith("compiled"):
        torch._dynamo.reset()
        encoder.compile(dynamic=True, backend=backend)  # as `runtime.compile` does
    return encoder


def _measure(
    cell: Measured, encoder: nn.Module, contender: Contender, lengths: list[int], setting: Setting,
    device: torch.device, rounds: int,
) -> None:  # fmt: skip
    batch = Batch(lengths, setting.read, torch.Generator().manual_seed(0), device)
    step = Step(encoder, batch, contender.width)
    step.autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=cell.way.startswith("bf16"))

    def work() -> None:
        step()
        step.forget()

    work()  # compiles, and sets memory aside
    work()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        work()
        cell.peak_bytes = torch.cuda.max_memory_allocated(device)  # of all tensors
    else:
        cell.peak_bytes = resident_peak(work)
    cell.launches = launches(work, device)
    began = time.monotonic()
    while len(cell.seconds) < rounds and (not cell.seconds or time.monotonic() - began < ENOUGH):
        cell.seconds.append(seconds(work, device))


def launches(work: Any, device: torch.device) -> int:
    """How many kernels are launched by something; on a CPU, how many operators it calls."""
    cuda = device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU, *([torch.profiler.ProfilerActivity.CUDA] if cuda else [])]
    with torch.profiler.profile(activities=activities) as profile:
        work()
        if cuda:
            torch.cuda.synchronize(device)
    events = profile.events() or []
    if cuda:
        return sum(event.name.startswith(KERNELS) for event in events)
    return sum(event.name.startswith("aten::") and event.cpu_parent is None for event in events)


def product_rate(device: torch.device, kind: torch.dtype, size: int) -> float:
    """FLOP/s of a large product, the median of some."""
    one, other = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    result = torch.empty_like(one)
    taken = [seconds(lambda: torch.mm(one, other, out=result), device) for _ in range(6)]
    return 2.0 * size**3 / median(taken[1:])
