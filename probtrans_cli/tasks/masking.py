"""Which tokens of a batch are hidden, and what stands in their place: BERT's masking, and that of Wu & Tu (2023).

Both are functions of uniform draws in [0, 1), one of each kind a token, so that the masks of an evaluation depend on
nothing but its draws. Of a sentence with ``n`` tokens, special ones included (google-research/bert),

    exact       k = min(round(rate n) but at least 1, largest) candidates: those with the smallest draws
                of whole words: words by rising draws, each one that still fits into k tokens
    bernoulli   every candidate, or every whole word, whose draw is below the rate

and of the hidden tokens a share ``mask`` is shown as `<mask>`, a share ``random`` as any ordinary entry of the
vocabulary, and the rest as they are.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_NEVER = 2.0  # larger than every draw


def chosen(
    candidates: Bool[Tensor, "b n"],
    lengths: Int[Tensor, " b"],
    draw: Float[Tensor, "b n"],
    *,
    rate: float,
    count: Literal["exact", "bernoulli"],
    largest: int | None = None,
    first: Int[Tensor, "b w"] | None = None,
) -> Bool[Tensor, "b n"]:
    """Which tokens are hidden.

    Args:
        candidates: True where a token may be hidden.
        lengths: tokens of every sentence.
        draw: uniform, one a token.
        rate: share of the tokens.
        count: as many as the rate says, or each by itself.
        largest: of an exact count, the largest one; None = any.
        first: hide whole words: the position of each word's first token, n or more behind the last word. The word's
            draw is that of its first token.
    """
    if first is not None:
        return _chosen_words(candidates, lengths, draw, rate=rate, count=count, largest=largest, first=first)
    if count == "bernoulli":
        return candidates & (draw < rate)
    order = draw.masked_fill(~candidates, _NEVER).argsort(dim=1, stable=True)
    ranks = torch.empty_like(order).scatter_(1, order, torch.arange(draw.shape[1], device=draw.device).expand_as(order))
    return candidates & (ranks < _number(lengths, rate, largest)[:, None])


def _number(lengths: Int[Tensor, " b"], rate: float, largest: int | None) -> Int[Tensor, " b"]:
    """How many tokens of each sentence are hidden."""
    return (lengths.double() * rate).round().long().clamp(min=1, max=largest)


def _chosen_words(
    candidates: Tensor,
    lengths: Tensor,
    draw: Tensor,
    *,
    rate: float,
    count: Literal["exact", "bernoulli"],
    largest: int | None,
    first: Tensor,
) -> Bool[Tensor, "b n"]:
    b, n = draw.shape
    here = first < n
    starts = draw.new_zeros(b, n + 1, dtype=torch.int64).scatter_(1, first.clamp(max=n), 1)[:, :n]
    word = starts.cumsum(1) - 1  # of every token; -1 in front of the first word
    sizes = draw.new_zeros(first.shape, dtype=torch.int64).scatter_add_(
        1, word.clamp(min=0), (candidates & (word >= 0)).long()
    )
    of_words = draw.gather(1, first.clamp(max=n - 1)).masked_fill(~here | (sizes == 0), _NEVER)
    taken = of_words < rate if count == "bernoulli" else _fitting(of_words, sizes, _number(lengths, rate, largest))
    return candidates & (word >= 0) & taken.gather(1, word.clamp(min=0))


def _fitting(draw: Float[Tensor, "b w"], sizes: Int[Tensor, "b w"], number: Int[Tensor, " b"]) -> Bool[Tensor, "b w"]:
    """The words that are taken, one after the other by rising draws, where each still fits."""
    order = draw.argsort(dim=1, stable=True)
    by_draw, there = sizes.gather(1, order), draw.gather(1, order) < _NEVER
    used = torch.zeros_like(number)
    fits = torch.zeros_like(there)
    for rank in range(order.shape[1]):
        fits[:, rank] = there[:, rank] & (used + by_draw[:, rank] <= number)
        used = used + by_draw[:, rank] * fits[:, rank]
    return torch.zeros_like(fits).scatter_(1, order, fits)


def replaced(
    ids: Int[Tensor, "b n"],
    hidden: Bool[Tensor, "b n"],
    draw: Float[Tensor, "b n"],
    *,
    mask: float,
    random: float,
    symbol: int,
    ordinary: Int[Tensor, " v"],
) -> Int[Tensor, "b n"]:
    """What is shown in place of ``ids``.

    Args:
        ids: the tokens.
        hidden: which of them are hidden.
        draw: uniform, one a token, others than those they were chosen by.
        mask: share of the hidden tokens that are shown as ``symbol``.
        random: share of those shown as an entry of ``ordinary``, all equally likely; the rest are shown as they are.
        symbol: the id of `<mask>`.
        ordinary: ids of the vocabulary's entries that are words.
    """
    shown = ids.masked_fill(hidden & (draw < mask), symbol)
    if random == 0.0:
        return shown
    # Within its share the draw is uniform once more.
    which = ((draw - mask) / random * len(ordinary)).long().clamp(0, len(ordinary) - 1)
    return torch.where(hidden & (draw >= mask) & (draw < mask + random), ordinary[which], shown)
