"""The layout of the real words alone: no row for padding, and short sentences share a line (``layout.py``)."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from probtrans_cli.models.probabilistic.fast.layout import Layout
from probtrans_cli.models.shapes import may_depend_on

WORTH_PACKING = 0.05  # share of padding above which picking the real words out pays


def worth_packing(mask: Bool[Tensor, "b n"]) -> bool:
    """Whether rows are to be the real words only: not on a GPU nor in a graph, whose shapes must not depend on values,
    nor where padding stands between the words of a sentence, as the next row must be the next word."""
    return may_depend_on(mask) and float(mask.float().mean()) < 1.0 - WORTH_PACKING and not _interrupted(mask)


def packed(mask: Bool[Tensor, "b n"]) -> Layout:
    """Real words only; every sentence has a line of its own."""
    index = mask.flatten().nonzero()[:, 0]
    return Layout(mask, index, index, Layout.of(mask).sentence)


def shared_lines(mask: Bool[Tensor, "b n"]) -> Layout:
    """Real words only; sentences stand together on lines of the length of the longest, rows in the lines' order."""
    index = mask.flatten().nonzero()[:, 0]
    lengths = mask.sum(1)
    m = max(int(lengths.max()), 1)
    lines = _first_fit(lengths.tolist(), m)
    order = torch.tensor([sentence for line in lines for sentence in line], dtype=torch.int64)
    sizes = lengths[order]
    line = torch.tensor([number for number, line in enumerate(lines) for _ in line], dtype=torch.int64)
    before = sizes.cumsum(0) - sizes  # rows before each sentence
    first = torch.tensor([len(line) for line in lines]).cumsum(0)
    first = torch.cat([first.new_zeros(1), first[:-1]])  # the first sentence of each line
    start = line * m + before - before[first][line]
    within = torch.arange(len(index)) - before.repeat_interleave(sizes)
    place = start.repeat_interleave(sizes) + within
    index = index[(lengths.cumsum(0) - lengths)[order].repeat_interleave(sizes) + within]
    sentence = torch.full((len(lines) * m,), -1).index_copy(0, place, order.repeat_interleave(sizes))
    return Layout(mask, index, place, sentence.view(len(lines), m))


def _interrupted(mask: Bool[Tensor, "b n"]) -> bool:
    """Whether padding stands between the words of a sentence."""
    begins = mask[:, 1:] & ~mask[:, :-1]
    return bool((begins.sum(1) + mask[:, 0] > 1).any())


def _first_fit(lengths: list[int], room: int) -> list[list[int]]:
    """Sentences of every line, the longest ones first, each in the first line that has room for it."""
    lines: list[list[int]] = []
    free: list[int] = []
    for sentence in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        line = next((number for number, left in enumerate(free) if left >= lengths[sentence]), len(lines))
        if line == len(lines):
            lines.append([])
            free.append(room)
        lines[line].append(sentence)
        free[line] -= lengths[sentence]
    return lines
