"""What parts of ``models/probabilistic/fast`` gain over plainer code in their place: ``python -m tests.bench.parts``.

    lines        short sentences share lines, against a line for each
    channels     near sides that all channels share, against sides of every channel
    pairs        products of pairs of words by hand, against autograd's
    recompute    blocks computed again by hand, against ``torch.utils.checkpoint``

Training steps of one encoder, both ways in turn, on one thread; seconds of the processor, which other programs disturb
less than those of a clock. Also whether both ways give the same bits.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from probtrans_cli.models import build
from probtrans_cli.models.probabilistic.fast import banded, bands, forms, lines, recomputed

SIZES = {"labels": 128, "channels": 8, "iterations": 3, "dropout": 0.15, "distance": 3}
RAGGED = [48, 31, 27, 22, 19, 17, 14, 12, 11, 9, 7, 6, 5, 3]


class Checkpointed(recomputed.RecomputedHeads):
    """The blocks of :class:`RecomputedHeads` by ``torch.utils.checkpoint``."""

    def blocked(self, block: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What ``_InBlocks`` returns."""
        n, far = tensors[0].shape[2], self.blocks.far
        parts: list[list[Tensor]] = []
        for start, stop in self.blocks.bounds:
            rows, whole, columns = block.cut(tensors, start, stop)
            short, *messages = checkpoint(block.compute, start, stop, rows, whole, use_reentrant=False)
            heads = [
                functional.pad(one, (0, 0, part.start, n - part.stop))
                for one, part in zip(messages[far:], columns, strict=False)
            ]
            parts.append([short, *messages[:far], *heads])
        found = [torch.cat(column, dim=2) for column in list(zip(*parts, strict=True))[: far + 1]]
        return [*found, *(sum(column[1:], column[0]) for column in list(zip(*parts, strict=True))[far + 1 :])]


@contextmanager
def separate_lines() -> Iterator[None]:
    """Every sentence has a line of its own."""
    table = tuple(row._replace(lines=lines.packed) if row.lines is lines.shared_lines else row for row in forms.FORMS)
    with patch.object(forms, "FORMS", table):
        yield


@contextmanager
def channels_apart() -> Iterator[None]:
    """Near sides of every channel, whether channels share them or not."""

    def band(sides: Any, shifts: Sequence[int], *, by_hand: bool) -> bands.Band:
        if not by_hand:
            return bands.TraceableBand(sides, shifts)
        return _Weighted(sides, shifts)

    class _Weighted(bands.Band):
        def __init__(self, sides: Any, shifts: Sequence[int]) -> None:
            self.sides, self.own = sides, bands._OwnBand(sides._replace(child=sides.u, weight=None), shifts)

        def scores(self) -> Tensor:
            return self.own.scores()

        def messages(self, p: Tensor) -> Any:
            to_child, to_head, _ = self.own.messages(p)
            return type(self.sides)(self.sides.back(to_child), to_head)

    with patch.object(banded, "band", band):
        yield


@contextmanager
def pairs_by_autograd() -> Iterator[None]:
    """Products of pairs of words as they stand."""
    with (
        patch.object(banded, "scores_of", lambda u, v, _: u @ v.mT),
        patch.object(banded, "messages_of", lambda p, u, v, _: (p @ v, p.mT @ u)),
    ):
        yield


@contextmanager
def checkpointed() -> Iterator[None]:
    """Blocks computed again by ``torch.utils.checkpoint``."""
    made = Checkpointed.blocked

    class Apply:
        apply = staticmethod(lambda block, *tensors: made(Holder(block.blocks), block, tensors))

    class Holder:
        def __init__(self, blocks: Any) -> None:
            self.blocks = blocks

    with patch.object(recomputed, "_InBlocks", Apply):
        yield


KEPT = {"dropout": 0.0}  # what is dropped depends on the lines
DAMPED = {"damping": {"heads": 0.2}}
UV, UVW = {"kind": "uv", "rank": 16}, {"kind": "uvw", "rank": 32}
PARTS: dict[str, list[tuple[str, dict[str, Any], list[int], Callable[[], Any]]]] = {
    "lines": [
        ("14 sentences of 3 to 48 words", {"decomposition": UV, **KEPT}, RAGGED, separate_lines),
        ("6 sentences of 20 to 40 words", {"decomposition": UV, **KEPT}, [40, 37, 33, 29, 25, 20], separate_lines),
    ],
    "channels": [
        ("14 sentences of 3 to 48 words", {"decomposition": UVW}, RAGGED, channels_apart),
        ("one of 300", {"decomposition": UVW}, [300], channels_apart),
    ],
    "pairs": [
        ("14 sentences of 3 to 48 words, damped", {"decomposition": UV, **DAMPED}, RAGGED, pairs_by_autograd),
        ("one of 300, damped", {"decomposition": UV, **DAMPED}, [300], pairs_by_autograd),
    ],
    "recompute": [
        ("one of 300", {"decomposition": UV, **DAMPED}, [300], checkpointed),
        ("one of 700", {"decomposition": UV, **DAMPED}, [700], checkpointed),
    ],
}


def step(encoder: Any, unary: Tensor, mask: Tensor) -> list[Tensor]:
    """A training step: the states, and all gradients."""
    torch.manual_seed(1)
    states = encoder(unary, mask).states
    return [states, *torch.autograd.grad(states.square().sum(), [unary, *encoder.parameters()])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.parts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up (default 7)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in options.parts or PARTS:
        for what, section, lengths, plainer in PARTS[name]:
            torch.manual_seed(0)
            encoder = build({**SIZES, **section}, "linear" if name == "recompute" else "banded").train()
            mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
            unary = torch.randn(*mask.shape, encoder.width, requires_grad=True)
            ours, ratios = step(encoder, unary, mask), []
            with plainer():
                theirs = step(encoder, unary, mask)
            same = all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
            apart = max(
                float(((one - other).norm() / one.norm()).detach()) for one, other in zip(ours, theirs, strict=True)
            )
            for _ in range(options.rounds):
                started = time.process_time()
                step(encoder, unary, mask)
                between = time.process_time()
                with plainer():
                    step(encoder, unary, mask)
                ratios.append((time.process_time() - between) / (between - started))
            print(
                f"{name:9} {what:38} plainer / ours {median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f}), "
                f"{'the same bits' if same else f'apart by {apart:.0e}'}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
