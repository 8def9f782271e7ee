"""The most probable tags of a sentence among the sequences that their scheme allows (Viterbi).

A transition from one tag to the next is allowed or forbidden, and all allowed ones are alike. So the best sequence is
the valid one whose words' log probabilities have the largest sum.

b  sentence    w  word    m  word of the batch, in row-major order    a  e  tag, and the next one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.data.codecs.entities import Scheme, may_follow


class Allowed(NamedTuple):
    """Which tags a scheme allows as the first one ``[a]``, which one after another ``[a, e]``, and which as the last
    one ``[a]``."""

    first: Bool[Tensor, " a"]
    then: Bool[Tensor, "a e"]
    last: Bool[Tensor, " a"]


def allowed_by(names: Sequence[str], scheme: Scheme) -> Allowed:
    """What a scheme allows of these tags, which are all its own."""
    return Allowed(
        torch.tensor([may_follow("", name, scheme) for name in names]),
        torch.tensor([[may_follow(before, name, scheme) for name in names] for before in names]),
        torch.tensor([may_follow(name, "", scheme) for name in names]),
    )


def best_valid(scores: Float[Tensor, "m a"], words: Bool[Tensor, "b w"], may: Allowed) -> Int[Tensor, " m"]:
    """The tags of all words, in row-major order; a sentence that no valid sequence fits has each word's best tag.

    Args:
        scores: log probabilities of the tags of every word, up to a constant of the word.
        words: where there is a word; those of a sentence stand at its beginning.
        may: what the scheme allows.
    """
    first, then, last = (
        torch.zeros(of.shape, dtype=torch.float64).masked_fill(~of, -torch.inf).to(scores.device) for of in may
    )
    exact = scores.double()
    lattice = exact.new_zeros(*words.shape, scores.shape[-1])
    # Each word's best score becomes 0: where the best tags are valid, their sum is 0 without rounding.
    lattice[words] = exact - exact.max(-1, keepdim=True).values
    total, itself = lattice[:, 0] + first, torch.arange(scores.shape[-1], device=scores.device)
    steps = []
    for i in range(1, words.shape[1]):
        best, before = (total[:, :, None] + then).max(1)
        there = words[:, i, None]  # behind its end a sentence stays as it is
        total = torch.where(there, best + lattice[:, i], total)
        steps.append(torch.where(there, before, itself))
    best, tag = (total + last).max(-1)
    tags = [tag]
    for before in reversed(steps):
        tag = before.gather(1, tag[:, None])[:, 0]
        tags.append(tag)
    possible = (best > -torch.inf)[:, None].expand_as(words)
    return torch.where(possible[words], torch.stack(tags[::-1], 1)[words], scores.argmax(-1))
