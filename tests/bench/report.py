"""The figures of a benchmark as tables: medians, spreads, ratios round by round, and what was reached of the goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal

from . import row
from .settings import STEP


@dataclass
class Cell:
    """One competitor on one kind of batches: its work, and what was measured.

    ``flops``: of a forward pass for one word, products with parameters; ``pair_flops``: likewise, all that it does for
    the other words of its sentence. ``seconds``: of each round, all batches together; ``product_rates``: FLOP/s of
    large matrix products, measured before, between and after the same batches; ``failed``: why there are none.
    """

    setting: str
    kind: str
    competitor: str
    batches: int
    words: int
    padded: int
    flops: float
    pair_flops: float
    seconds: list[float] = field(default_factory=list)
    product_rates: list[float] = field(default_factory=list)
    peak_mib: float | None = None
    failed: str | None = None

    def shares(self) -> list[float]:
        """FLOP/s in each round, products with parameters alone, of real words; in relation to large products."""
        work = STEP * self.flops * self.words
        return [work / taken / rate for taken, rate in zip(self.seconds, self.product_rates, strict=True)]


@dataclass(frozen=True)
class Goal:
    """A ratio that is asked for: ``time`` and ``memory`` of one competitor over another's, ``share`` of a rate."""

    letter: str
    setting: str
    kind: str
    measure: Literal["time", "memory", "share"]
    competitor: str
    over: str
    bound: float
    at_least: bool


GOALS = (
    Goal("a", "mlm-ptb", "ragged", "time", "plain", "banded", 4.0, True),
    Goal("b", "mlm-ptb", "bucketed", "time", "banded", "transformer", 2.9, False),
    Goal("b", "mlm-ptb", "bucketed", "time", "shared", "transformer", 0.8, False),
    Goal("b", "mlm-ptb", "bucketed", "time", "rotary", "transformer", 0.8, False),
    Goal("c", "mlm-ptb", "ragged", "share", "banded", "product rate", 0.6, True),
    Goal("d", "mlm-ptb", "1x512", "time", "plain", "banded", 7.0, True),
    Goal("e", "mlm-ptb", "1x2048", "memory", "linear", "transformer", 2.0, False),
)


@dataclass
class Report:
    """All cells of a run, the machine, and the rates of large matrix products that were seen, in FLOP/s."""

    machine: dict[str, str]
    cells: list[Cell] = field(default_factory=list)
    product_rates: list[float] = field(default_factory=list)

    def cell(self, setting: str, kind: str, competitor: str) -> Cell | None:
        wanted = (setting, kind, competitor)
        return next((cell for cell in self.cells if (cell.setting, cell.kind, cell.competitor) == wanted), None)

    def reached(self, goal: Goal) -> list[float]:
        """The goal's figure in each round (memory: one figure); empty where it was not measured."""
        cell = self.cell(goal.setting, goal.kind, goal.competitor)
        over = self.cell(goal.setting, goal.kind, goal.over)
        if cell is None:
            return []
        if goal.measure == "share":
            return cell.shares()
        if over is None:
            return []
        return memory_ratio(cell, over) if goal.measure == "memory" else ratios(cell, over)

    def data(self) -> dict[str, Any]:
        """Everything, for a JSON file."""
        goals = [asdict(goal) | {"reached": self.reached(goal)} for goal in GOALS]
        return {
            "machine": self.machine,
            "product_rates": self.product_rates,
            "cells": [asdict(cell) for cell in self.cells],
            "goals": goals,
        }


def ratios(cell: Cell, over: Cell) -> list[float]:
    """Times of one competitor over another's, round by round."""
    return [one / other for one, other in zip(cell.seconds, over.seconds, strict=False)]


def memory_ratio(cell: Cell, over: Cell) -> list[float]:
    """Peak memory of one over another's, as a list of one; empty where one of them is not known."""
    return [cell.peak_mib / over.peak_mib] if cell.peak_mib and over.peak_mib else []


def markdown(report: Report) -> str:
    least, middle, best = (f"{one(report.product_rates) / 1e9:,.0f}" for one in (min, median, max))
    head = [
        "# Encoders: a training step",
        "",
        "; ".join(f"{name}: {value}" for name, value in report.machine.items()) + ".",
        f"Large matrix products: {middle} GFLOP/s ({least} - {best}) in this run.",
        "Step: forward and backward of one batch, median of the rounds (least - most). MFLOP/word: of a forward pass, "
        "products with parameters + products between words, real words only; a step counts three times that. The "
        "whole last iteration counts, though an encoder need not compute what no wanted state (30 % for MLM) depends "
        "on: of the 20 products with parameters of mlm-ptb it can leave out 1.4.",
        "Share: of the rate that large matrix products had at the same time, first without, then with products between "
        "words. Peak memory: "
        "parameters, gradients and all; the largest batch.",
    ]
    return "\n".join([*head, *_sections(report), *_goals(report)])


def _sections(report: Report) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in report.cells:
        groups.setdefault((cell.setting, cell.kind), []).append(cell)
    for (setting, kind), cells in groups.items():
        first = cells[0]
        padding = 1 - first.words / first.padded
        size = f"{first.batches} x {first.words / first.batches:.0f} words, {padding:.0%} padding"
        yield from ("", f"## {setting}, {kind} ({size})", "")
        yield "| encoder | step, ms | words/s | MFLOP/word | share | peak, MiB | time / transformer |"
        yield "|---|---|---|---|---|---|---|"
        other = report.cell(setting, kind, "transformer")
        yield from (_row(cell, other) for cell in cells)


def _row(cell: Cell, other: Cell | None) -> str:
    memory = "-" if cell.peak_mib is None else f"{cell.peak_mib:,.0f}"
    work = f"{cell.flops / 1e6:.4g} + {cell.pair_flops / 1e6:.3g}"
    if not cell.seconds:
        return row(cell.competitor, cell.failed or "-", "-", work, "-", memory, "-")
    step = _spread([taken / cell.batches * 1e3 for taken in cell.seconds])
    share = median(cell.shares())
    whole = share * (1 + cell.pair_flops / cell.flops)
    compared = _spread(ratios(cell, other)) if other is not None else "-"
    speed = f"{cell.words / median(cell.seconds):,.0f}"
    return row(cell.competitor, step, speed, work, f"{share:.0%}, {whole:.0%}", memory, compared)


def _goals(report: Report) -> Iterator[str]:
    rows = [(goal, values) for goal in GOALS if (values := report.reached(goal))]
    if not rows:
        return
    yield from ("", "## Goals", "", "| | what | reached | goal | |", "|---|---|---|---|---|")
    for goal, values in rows:
        ratio = f"{goal.setting}, {goal.kind}: {goal.measure} of {goal.competitor} / {goal.over}"
        bound = f"{'at least' if goal.at_least else 'at most'} {goal.bound:g}"
        met = median(values) >= goal.bound if goal.at_least else median(values) <= goal.bound
        yield row(goal.letter, ratio, _spread(values), bound, "met" if met else "NOT MET")


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.3g}"
    return f"{_short(median(values))} ({_short(min(values))} - {_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
