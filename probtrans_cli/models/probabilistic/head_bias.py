"""Scores of heads in which no label has a say: distance, direction, frequency (not in the paper).

    F_ic(j)    += ρ [j > i] - δ ln|i - j| - φ g(j) + η [g(j) < g(i)]
    F_ic(root) -= κ g(i),                                g(w) = (ln n_w)^2, n_w the training count of the word

with ρ, δ, φ, κ, η of the channel ``c`` where it has its own. They say what is expected of dependency trees before a
word is read: arcs are short (Klein & Manning's harmonic start, 2004), they lean to one side, which is the language's,
and function words, of which the most frequent words are, have no dependents (so in Universal Dependencies); a large η
says this without a scale. Unlike a start of the learned scores, they stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.recipe.model.probabilistic import HeadBias


def commonness(counts: Sequence[int], *, unread: int) -> Float[Tensor, " v"]:
    """``g`` of every entry of a vocabulary: ``unread`` special ones, of which the last stands for a hidden word and is
    as common as a training word is on average, then the words with these counts. An unknown word counts as one."""
    of_words = [math.log(max(count, 1)) ** 2 for count in counts]
    mean = sum(count * g for count, g in zip(counts, of_words, strict=True)) / max(sum(counts), 1)
    return torch.tensor([0.0] * (unread - 1) + [mean] + of_words)


def head_bias(
    section: HeadBias, common: Float[Tensor, "b n"]
) -> tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]]:
    """What is added to the scores of the words as heads, ``[b, channel, i, j]``, and to those of the root; one channel
    stands for all where they have the same numbers."""

    numbers = section.model_dump()
    channels = max((len(value) for value in numbers.values() if isinstance(value, list)), default=1)

    def of(name: str) -> Float[Tensor, "c 1 1"]:
        return common.new_tensor(numbers[name]).reshape(-1, 1, 1).expand(channels, 1, 1)

    word = torch.arange(common.shape[1], device=common.device)
    x = word[None, :] - word[:, None]
    near = of("right") * (x > 0) - of("distance") * x.abs().clamp(min=1).to(common.dtype).log()
    child, head = common[:, None, :, None], common[:, None, None, :]
    near = near + of("rarer") * (head < child) - of("frequency") * head
    return near, -of("root")[:, 0] * common[:, None]
