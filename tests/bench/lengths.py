"""Thousands of words per second by the length of a sentence: forms of messages, a transformer, decoders of trees.

    python -m tests.bench.lengths

Batches of about 4,096 words in sentences of one length go forwards through encoders of 64 labels, 6 channels and 2
iterations with random potentials, of the quick start's sizes (`uv` of rank 16, two buckets), and of a transformer of as
many layers, width and heads. `blocked` answers without trees, `again` the same where blocks are not kept, `trees` gives
the distributions that trees are read from, and `plain` these by the equations as they stand; `labelled arcs` is a field
with a relation on every arc. The decoders are timed on random scores.
Processor time of one thread, the best of the rounds. The rows are those of the picture of `docs/speed.md`.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from probtrans_cli.models import build
from probtrans_cli.models.base import Words
from probtrans_cli.trees.decode import Method, decode, levelled

from . import parser_of, seconds_of

LENGTHS = (25, 50, 100, 200, 400, 800, 1600)
WORDS = 4096
FIELD: dict[str, Any] = {"kind": "probabilistic", "labels": 64, "channels": 6, "iterations": 2}
USUAL = {"decomposition": {"kind": "uv", "rank": 16}, "distance": 0}
LABELLED = {"decomposition": {"kind": "uv", "rank": 16}, "distance": None, "head_labels": True}
TRANSFORMER = {"kind": "transformer", "width": 64, "inner": 256, "heads": 6, "head_size": 16, "layers": 2}
TRANSFORMER["positions"] = {"kind": "sinusoidal"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("lengths", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, metavar="N", help="words of a sentence")
    options = parser.parse_args(arguments)
    if min(options.lengths) < 1:
        parser.error("a sentence has at least one word")
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    forms = {
        "blocked": encoder(FIELD | USUAL, "banded"),
        "again": encoder(FIELD | USUAL, "linear"),
        "trees": encoder(FIELD | USUAL, "fast", arcs=True),
        "plain": encoder(FIELD | USUAL, "plain", arcs=True),
        "labelled arcs": encoder(FIELD | LABELLED, "fast", arcs=True),
        "transformer": encoder(TRANSFORMER, "fast"),
        "mst": decoder("mst"),
        "eisner": decoder("eisner"),
    }
    print(f"| words of a sentence | {' | '.join(forms)} |")
    print("|---" * (len(forms) + 1) + "|")
    for length in options.lengths:
        sentences = max(1, WORDS // length)
        cells = []
        for form in forms.values():
            read = partial(form, sentences, length)
            seconds = min(seconds_of(read, time.process_time) for _ in range(options.rounds))
            cells.append(f"{float(format(length * sentences / seconds / 1000, '.2g')):,g}")
        print(f"| {length:,} | {' | '.join(cells)} |", flush=True)
    return 0


def encoder(section: dict[str, Any], messages: Any, *, arcs: bool = False) -> Callable[[int, int], object]:
    """Return what reads so many sentences of so many words."""
    torch.manual_seed(0)
    model = build(section, messages).eval()

    @torch.no_grad()
    def read(sentences: int, length: int) -> object:
        unary = torch.randn(sentences, length, model.facts.unary_width)
        return model(Words(unary, torch.ones(sentences, length, dtype=torch.bool)), arcs=(2,) if arcs else False)

    return read


def decoder(method: Method) -> Callable[[int, int], object]:
    """Return what finds the trees of so many sentences of so many words."""

    def find(sentences: int, length: int) -> object:
        scores = levelled(np.random.default_rng(0).normal(size=(sentences, length, length)))
        return decode(scores, np.ones((sentences, length), dtype=bool), method)

    return find


if __name__ == "__main__":
    raise SystemExit(main())
