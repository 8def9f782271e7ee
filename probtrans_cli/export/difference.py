"""How much a graph differs from the network that it was made of, and how fast the two are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probtrans_cli.export.graph import Arrays, Asked, Plan
from probtrans_cli.models.base import Features, Inputs, Outputs, Wants
from probtrans_cli.models.network import Network

WORDS, SENTENCES, DRAWS = 200, 64, 8
"""The longest sentences, the largest batch, and how many batches of random sizes are drawn beside the corners."""
SPEED_SENTENCES, SPEED_WORDS, SPEED_SECONDS = 16, 25, 0.5
MOST = 1e-4
"""The largest relative difference that is rounding in float32."""
_FEATURES = 6

Run = Callable[[Arrays], Arrays]


class Difference(NamedTuple):
    """How much two outputs differ."""

    absolute: float
    relative: float
    """Relative to the value of the network where that is more than 1 or less than -1: scores of some models are in the
    hundreds, and so is their rounding."""

    def or_larger(self, other: Difference) -> Difference:
        """The larger one of each."""
        return Difference(max(self.absolute, other.absolute), max(self.relative, other.relative))


@dataclass(frozen=True)
class Drawn:
    """Random sentences as an ordinary pass takes them, and what it is asked."""

    inputs: Inputs
    wants: Wants
    words: Tensor

    @property
    def rows(self) -> Tensor:
        """``[b, n]``: where rows of arcs are."""
        return self.inputs.mask


def drawn(network: Network, plan: Plan, size: tuple[int, int], random: torch.Generator) -> Drawn:
    """Sentences of 1 to n tokens, the first one of n: ids, words, features and segments at random; ``size``: (b, n)."""
    b, n = size
    ids = torch.randint(0, network.unary.num_embeddings, size, generator=random)
    ids = ids.masked_fill(ids == network.padding, network.hidden)
    lengths = torch.randint(1, n + 1, (b,), generator=random)
    lengths[0] = n
    mask = torch.arange(n) < lengths[:, None]
    ids = ids.masked_fill(~mask, network.padding)
    some = (torch.rand(size, generator=random) < 0.4) & mask
    first, words = None, mask
    if "first" in plan.inputs:
        starts = some | (torch.arange(n) == 0)
        number = starts.sum(1, keepdim=True)
        order = (~starts).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(number.max())]
        words = torch.arange(order.shape[1]) < number
        first = order.masked_fill(~words, n)
    segments = None
    if "segments" in plan.inputs:
        segments = torch.randint(0, 2, size, generator=random).sort(1).values * mask
    features = None
    if network.features is not None:
        number = torch.randint(0, _FEATURES, (b * n,), generator=random) * mask.flatten()
        rows = torch.randint(0, network.features.weight.shape[0], (int(number.sum()),), generator=random)
        features = Features(rows, number.cumsum(0) - number)
    wants = Wants(
        words=words if plan.words else None,
        tokens=some if "at" in plan.inputs else None,
        sentence=plan.sentence or plan.main == "sentence",
        arcs=plan.arcs,
    )
    return Drawn(Inputs(ids=ids, mask=mask, first=first, features=features, segments=segments), wants, words)


def sizes(longest: int | None, random: torch.Generator) -> Iterator[tuple[int, int]]:
    """The corners, and batches in between; no sentence is longer than the network reads."""
    most = min(WORDS, longest or WORDS)
    yield from ((1, 1), (1, most), (SENTENCES, 1), (SENTENCES, most))
    for _ in range(DRAWS):
        yield tuple(int(torch.randint(1, top + 1, (), generator=random)) for top in (SENTENCES, most))  # type: ignore[misc]


@torch.no_grad()
def largest_difference(network: Network, plan: Plan, run: Run, seed: int = 0) -> Difference:
    """The largest ones of all outputs, over random sentences; what stands at padding is nobody's.

    The network is asked as it always is, with masks and rows; the graph by the same words.
    """
    random = torch.Generator().manual_seed(seed)
    asked, largest = Asked(plan, run), Difference(0.0, 0.0)
    for size in sizes(network.longest, random):
        given = drawn(network, plan, size, random)
        expected, found = network(given.inputs, given.wants), asked(given.inputs, given.wants)
        for left, right in _compared(expected, found, given, plan):
            largest = largest.or_larger(_difference(left, right))
    return largest


@torch.no_grad()
def largest_rounding(network: Network, plan: Plan, seed: int = 0) -> Difference:
    """How much a network in float32 differs from itself in float64, over the sentences of :func:`largest_difference`.

    Where a network blows up what rounding begins, as many mean-field iterations after one another do, two orders of the
    same sums differ by as much.
    """
    random, largest = torch.Generator().manual_seed(seed), Difference(0.0, 0.0)
    for size in sizes(network.longest, random):
        given = drawn(network, plan, size, random)
        found = network(given.inputs, given.wants)
        try:
            expected = network.double()(given.inputs, given.wants)
        finally:
            network.float()  # as it was: no float32 is rounded in float64
        for left, right in _compared(expected, found, given, plan):
            largest = largest.or_larger(_difference(left, right))
    return largest


def rounded(difference: float, rounding: float) -> bool:
    """Whether a relative difference is no more than rounding, that of the network being ``rounding``: exponentials of
    another runtime round several times as much as those of torch."""
    return difference <= largest_rounded(rounding)


def largest_rounded(rounding: float) -> float:
    """The largest relative difference that is taken for rounding."""
    return max(MOST, 10.0 * rounding)


def _compared(expected: Outputs, found: Outputs, given: Drawn, plan: Plan) -> Iterator[tuple[Tensor, Tensor]]:
    """The pairs of what both say; of padding nothing."""
    assert expected.scores.keys() == found.scores.keys(), "a graph gives the same scores"
    for name, values in expected.scores.items():
        if name == "rows":
            there = given.words[:, None].expand(values.shape[:3])
            yield values[there], found.scores[name][there]
        else:
            yield values, found.scores[name]
    if plan.sentence and expected.sentence is not None:
        assert found.sentence is not None, "so is its plan"
        yield expected.sentence, found.sentence
    if expected.arcs is not None:
        assert found.arcs is not None, "so is its plan"
        there = given.rows[:, None, None].expand(expected.arcs.shape[:4])
        yield expected.arcs[there], found.arcs[there]


def _difference(left: Tensor, right: Tensor) -> Difference:
    """The largest ones; of numbers that are infinite on one side it is infinite, on both sides there is none."""
    assert left.shape == right.shape, "a graph gives what the network gives"
    apart = torch.where(left == right, 0.0, (left.double() - right.double()).abs())
    if not apart.numel():
        return Difference(0.0, 0.0)
    both = apart, apart / left.double().abs().clamp(min=1.0)
    return Difference(*(float(one.nan_to_num(nan=torch.inf).max()) for one in both))


@torch.no_grad()
def words_per_second(network: Network, plan: Plan, runs: dict[str, Run]) -> dict[str, int]:
    """Of the network as it is (``eager``) and of each of some ways to run its graph: 16 sentences of up to 25 words."""
    random = torch.Generator().manual_seed(0)
    size = SPEED_SENTENCES, min(SPEED_WORDS, network.longest or SPEED_WORDS)
    given = drawn(network, plan, size, random)
    words = int(given.words.sum())
    ways: dict[str, Callable[[], Any]] = {"eager": lambda: network(given.inputs, given.wants)}
    ways |= {name: lambda run=run: Asked(plan, run)(given.inputs, given.wants) for name, run in runs.items()}  # type: ignore[misc]
    return {name: round(words / _seconds(way)) for name, way in ways.items()}


def _seconds(way: Callable[[], Any]) -> float:
    """The shortest time of one call, after one that is not counted."""
    way()
    best, begin = torch.inf, time.perf_counter()
    while time.perf_counter() - begin < SPEED_SECONDS:
        start = time.perf_counter()
        way()
        best = min(best, time.perf_counter() - start)
    return best
