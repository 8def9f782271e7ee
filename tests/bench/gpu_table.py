"""What was seen on a GPU, as one page: the tests, every encoder's step, the trainings. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from . import row

if TYPE_CHECKING:
    from .gpu_steps import Measured

# By a part of the chip's name, from its data sheet: dense bf16 with float32 sums, float32 without tensor cores; FLOP/s.
PEAKS = {
    "H100 PCIe": (756e12, 51e12),
    "H100": (989e12, 67e12),
    "H200": (989e12, 67e12),
    "A100": (312e12, 19.5e12),
    "L40S": (362e12, 91.6e12),
    "RTX 4090": (165e12, 82.6e12),
    "RTX 3090": (71e12, 35.6e12),
}


@dataclass
class Page:
    """All that was seen. ``tests``: what pytest said last; ``rates``: FLOP/s of large products by precision;
    ``trainings``: a name, and the figures or why there are none."""

    machine: dict[str, str]
    tests: str | None = None
    rates: dict[str, float] = field(default_factory=dict)
    cells: list[Measured] = field(default_factory=list)
    trainings: list[tuple[str, dict[str, float] | str]] = field(default_factory=list)


def peak_of(device: str, precision: str) -> float | None:
    """The chip's peak in FLOP/s; None where its data sheet is not known here."""
    for name, (half, single) in PEAKS.items():
        if all(part in device for part in name.split()):
            return half if precision == "bf16" else single
    return None


def page(given: Page) -> str:
    lines = ["# On a GPU", "", "; ".join(f"{name}: {value}" for name, value in given.machine.items()) + ".", ""]
    if given.tests is not None:
        lines += [f"`pytest -m gpu`: {given.tests}", ""]
    if given.cells:
        lines += [*_steps(given), ""]
    if given.trainings:
        lines += [*_trainings(given.trainings), ""]
    return "\n".join(lines)


def _steps(given: Page) -> Iterator[str]:
    rates = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in given.rates.items())
    yield "## A training step"
    yield ""
    yield f"Large products in this run, TFLOP/s: {rates}. Share: FLOPs of real words alone (`tests/bench/settings.py`),"
    yield "of the chip's peak in that precision by its data sheet, and of the large products. Launches: of kernels by"
    yield "one step; on a CPU, operators. Graphs: compiled, recorded and replayed."
    yield ""
    yield "| encoder | batch | way | step, ms | words/s | of peak | of products | peak, MiB | launches | to eager |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    eager = {
        (cell.contender, cell.batch): median(cell.seconds)
        for cell in given.cells
        if cell.way == "bf16" and cell.seconds
    }
    for cell in given.cells:
        yield _row(cell, given, eager.get((cell.contender, cell.batch)))


def _row(cell: Measured, given: Page, eager: float | None) -> str:
    if not cell.seconds:
        return row(cell.contender, cell.batch, cell.way, cell.failed or "-", *["-"] * 6)
    precision, taken = cell.way.split()[0], median(cell.seconds)
    rate = cell.work / taken  # FLOP/s
    peak = peak_of(given.machine.get("device", ""), precision)
    compared = f"{taken / eager:.2f}" if eager is not None and cell.way.startswith("bf16 ") else "-"
    return row(
        cell.contender, cell.batch, cell.way, f"{taken * 1e3:.3g}", f"{cell.words / taken:,.0f}",
        "-" if peak is None else f"{rate / peak:.1%}", f"{rate / given.rates[precision]:.1%}",
        "-" if cell.peak_bytes is None else f"{cell.peak_bytes / 2**20:,.0f}", str(cell.launches), compared,
    )  # fmt: skip


def _trainings(given: Sequence[tuple[str, dict[str, float] | str]]) -> Iterator[str]:
    yield "## Two epochs of masked language modelling"
    yield ""
    yield "| training | seconds | words/s, the median of its log | perplexity on dev |"
    yield "|---|---|---|---|"
    for name, found in given:
        if isinstance(found, str):
            yield row(name, found, "-", "-")
        else:
            yield row(name, f"{found['seconds']:.0f}", f"{found['speed']:,.0f}", f"{found['perplexity']:.4g}")
