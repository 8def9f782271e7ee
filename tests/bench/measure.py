"""Training steps of every competitor on the same batches: their times, interleaved, and the peak memory of one.

A step: forward in train mode with dropout; a loss that reads the wanted states through a fixed random projection;
backward to all parameters and to the word scores, whose gradient an embedding table would get. No output layer and no
optimizer. Encoders are told which states are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch
from torch import nn

from probtrans_cli.models import build
from probtrans_cli.models.base import Words

from . import memory_of, seconds_of
from .reference import Reference
from .settings import ROWS, Setting

Messages = Literal["plain", "banded", "linear"]

MESSAGES: dict[str, Messages] = {"plain": "plain", "banded": "banded", "linear": "linear"}
TRANSFORMERS = ("transformer", "fused")
_PRODUCT = {"cpu": 2048, "cuda": 8192}  # rows and columns of the product whose rate is the machine's


class Batch:
    """Padded sentences of given lengths: ``mask [b, n]``, ``wanted [b, n]`` (None: every word) and ``rows``, the
    positions of the states that the loss reads, counted through the padded batch."""

    def __init__(self, lengths: Sequence[int], read: float, generator: torch.Generator, device: torch.device) -> None:
        size = torch.tensor(lengths)
        mask = torch.arange(int(size.max())) < size[:, None]
        wanted = mask & (torch.rand(mask.shape, generator=generator) < read)
        wanted[0, 0] = True  # never none
        self.words, self.lengths = int(size.sum()), tuple(lengths)
        self.mask = mask.to(device)
        self.wanted = wanted.to(device) if read < 1.0 else None
        self.rows = (mask if read == 1.0 else wanted).flatten().nonzero()[:, 0].to(device)


class Step:
    def __init__(self, encoder: nn.Module, batch: Batch, width: int) -> None:
        self.encoder, self.batch = encoder, batch
        device = batch.mask.device
        unary = torch.randn(*batch.mask.shape, width, device=device) * batch.mask[:, :, None]
        self.unary = unary.requires_grad_()
        self.projection = torch.randn(len(batch.rows), width, device=device)
        self.autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")

    def __call__(self) -> None:
        words = Words(self.unary, self.batch.mask, lengths=self.batch.lengths)
        with self.autocast:
            states = self.encoder(words, at=self.batch.wanted).states
            read = states.flatten(0, 1).index_select(0, self.batch.rows)
            loss = (read.float() * self.projection).sum()
        loss.backward()  # type: ignore[no-untyped-call]

    def forget(self) -> None:
        """Let go of the gradients."""
        self.encoder.zero_grad(set_to_none=True)
        self.unary.grad = None


def encoder_of(setting: Setting, competitor: str, longest: int) -> tuple[nn.Module, int]:
    """The encoder that a competitor's name stands for, and the width of what goes in."""
    if competitor in TRANSFORMERS:
        sizes = setting.transformer
        section = sizes.section(attention_dropout=competitor != "fused", rows=max(ROWS, longest))
        return build(section), sizes.width
    if competitor == "reference":
        return Reference(setting.model), int(setting.model["labels"])
    variant = None if competitor in MESSAGES else competitor
    section = setting.section(variant)
    encoder = build(section, messages=MESSAGES.get(competitor, "banded"))
    return encoder, int(section["labels"])


def steps(setting: Setting, competitor: str, lengths: Sequence[Sequence[int]], device: torch.device) -> list[Step]:
    """A step for every batch, with one encoder; the same batches and wanted words for all competitors."""
    torch.manual_seed(0)
    encoder, width = encoder_of(setting, competitor, max(map(max, lengths)))
    encoder.to(device).train()
    generator = torch.Generator().manual_seed(0)
    return [Step(encoder, Batch(one, setting.read, generator, device), width) for one in lengths]


def prepare_machine(name: str, threads: int) -> torch.device:
    """Set the threads, and denormal numbers to zero as the command does; return the device."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    return torch.device(name)


# --- time -------------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """How long some work takes on the device."""
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize(device)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize(device)
        return float(start.elapsed_time(end)) / 1000.0
    return seconds_of(work)


class ProductRate:
    """The machine's rates of large matrix products that were ``seen``, in FLOP/s; float32 on the CPU, else bfloat16."""

    def __init__(self, device: torch.device, size: int | None = None) -> None:
        n = size or _PRODUCT[device.type]
        kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.factors = [torch.randn(n, n, device=device).to(kind) for _ in range(2)]
        self.result = torch.empty_like(self.factors[0])
        self.device, self.flops = device, 2.0 * n**3
        self.seen: list[float] = []

    def measure(self) -> float:
        """Multiply once more; the rate."""
        self.seen.append(self.flops / seconds(lambda: torch.mm(*self.factors, out=self.result), self.device))
        return self.seen[-1]


def rounds_of(
    competitors: Mapping[str, Sequence[Step]], rounds: int, device: torch.device, rate: ProductRate
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of every competitor in every round, all batches together, and the rate of large products meanwhile; the
    warm-up round is dropped.

    Each competitor has its turn in each round, and another one begins each time. The rate is the mean of one product
    before, one after every batch: the speed of a shared machine changes from one minute to the next.
    """
    names = list(competitors)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            took, rates = 0.0, [rate.measure()]
            for step in competitors[name]:
                took += seconds(step, device)
                step.forget()
                rates.append(rate.measure())
            if number:
                found[name].append((took, fmean(rates)))
    return found


# --- memory -----------------------------------------------------------------------------------------------------------


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """Peak memory of building an encoder and of its step, above what the process had before; for a fresh process."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    torch.mm(*torch.randn(2, 512, 512))  # threads and kernels that every encoder uses
    _limit_memory()
    return resident_peak(work)


def resident_peak(work: Callable[[], object]) -> int:
    """Peak memory that something adds to this process, on a CPU.

    Not by getrusage: its ru_maxrss starts at the peak of the process that started this one.
    """
    with suppress(OSError):  # then what importing took counts as well
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # forget the peak so far
    before = memory_of()["VmRSS"]
    work()
    return max(memory_of()["VmHWM"] - before, 0)


def _limit_memory() -> None:
    """Make an allocation fail that does not fit, before the kernel ends some process."""
    import resource

    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text("ascii").splitlines()
        if line.startswith("MemAvailable:")
    )
    limit = memory_of()["VmSize"] + int(0.9 * available)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
