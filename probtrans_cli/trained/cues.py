"""Cues of dependency trees: what a vocabulary and a training corpus tell of every word, for `model.head_bias`."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import Vocabulary
from probtrans_cli.data.vocabularies.words import is_word
from probtrans_cli.models.probabilistic.head_bias import commonness
from probtrans_cli.statistics.word_order import standing_alone, word_order

ENOUGH_WORDS = 2_000_000
"""Of a training corpus, to see what the order of words tells."""


def commonness_of(vocabulary: Vocabulary) -> Float[Tensor, " v"]:
    """How common every entry of a vocabulary of words is."""
    assert vocabulary.entry_counts is not None, "a recipe with another vocabulary is refused"
    return commonness(vocabulary.entry_counts, unread=len(vocabulary.specials))


def order_of(vocabulary: Vocabulary, train: Split) -> Float[Tensor, "v 8"]:
    """z, R, Λ, D, e, 1 for punctuation, N and 1 for a rare word, of every entry by the first :data:`ENOUGH_WORDS` words
    of a training corpus, see :mod:`probtrans_cli.models.probabilistic.head_bias`; of a boundary, z, R and D are 0."""
    named = ((id in vocabulary.specials, vocabulary.decode(id)) for id in range(vocabulary.size))
    boundary = np.array([not (special or is_word(word)) for special, word in named])
    lengths = train.lengths[: 1 + int(np.searchsorted(np.cumsum(train.lengths, dtype=np.int64), ENOUGH_WORDS))]
    parts, columns = [np.zeros(0, dtype=np.int64)], train.columns("ids")
    while (wanted := int(lengths.sum()) - sum(map(len, parts))) > 0:
        parts.append(next(columns)[:wanted])
    ids = np.concatenate(parts)
    order = word_order(ids, lengths, boundary, vocabulary.UNKNOWN)
    counts = np.where(boundary, 0, np.bincount(ids, minlength=vocabulary.size))
    common = commonness_of(vocabulary).numpy()
    words = max(int(counts.sum()), 1)
    right = float(np.clip(counts @ order[:, 0] / words, 0.0, 1.0))
    drawn = np.where(boundary, 0.0, right * (common - counts @ common / words))
    edge = np.where(boundary, common[~boundary].max(initial=0.0), common)
    rare, alone = standing_alone(ids, lengths, boundary, vocabulary.UNKNOWN)
    every = np.ones(vocabulary.size)
    return torch.from_numpy(np.column_stack([order, right * every, drawn, edge, boundary, alone * every, rare]))
