"""Scores of heads in which no label has a say: distance, direction, frequency, order of words (not in the paper).

    F_ic(j)    += (ρ + ψ z(i)) [j > i] - δ ln|i - j| - φ g(j) + η [g(j) < g(i)] - ω R(j)
    F_ic(root) -= κ g(i) + ω R(i),                       g(w) = (ln n_w)^2, n_w the training count of the word

with ρ, ψ, δ, φ, η, ω, κ of the channel ``c`` where it has its own. They say what is expected of dependency trees before
a word is read: arcs are short (Klein & Manning's harmonic start, 2004), they lean to one side, which is the language's
and the word's, and function words, of which the most frequent words are, have no dependents (so in Universal
Dependencies); a large η says this without a scale. Nor have words that are easily left out. The leaning ``z`` and the
reducibility ``R`` of a word are read off the training corpus, see :mod:`probtrans_cli.statistics.word_order`. Unlike a
start of the learned scores, all these stay.
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
    section: HeadBias, cues: Float[Tensor, "b n 3"]
) -> tuple[Float[Tensor, "b c n n"], Float[Tensor, "b c n"]]:
    """What is added to the scores of the words as heads, ``[b, channel, i, j]``, and to those of the root; one channel
    stands for all where they have the same numbers. ``cues``: g, z and R of every word."""

    numbers = section.model_dump()
    channels = max((len(value) for value in numbers.values() if isinstance(value, list)), default=1)

    common, leaning, reducible = cues[:, None].unbind(-1)

    def of(name: str) -> Float[Tensor, "c 1 1"]:
        return common.new_tensor(numbers[name]).reshape(-1, 1, 1).expand(channels, 1, 1)

    word = torch.arange(common.shape[2], device=common.device)
    x = word[None, :] - word[:, None]
    to_right = of("right") + of("leaning") * leaning[..., None]
    near = to_right * (x > 0) - of("distance") * x.abs().clamp(min=1).to(common.dtype).log()
    child, head = common[..., :, None], common[..., None, :]
    near = near + of("rarer") * (head < child) - of("frequency") * head - of("reducible") * reducible[..., None, :]
    return near, -of("root")[:, 0] * common - of("reducible")[:, 0] * reducible
