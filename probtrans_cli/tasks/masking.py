"""Which tokens of a batch are hidden, and what stands in their place: BERT's masking, and that of Wu & Tu (2023).

Both are functions of uniform draws in [0, 1), one of each kind a token, so that the masks of an evaluation depend on
nothing but its draws. Of a sentence with ``n`` tokens, special ones included (google-research/bert),

    exact       k = min(round(rate n) but at least 1, largest) candidates: those with the smallest draws
                of whole words: words by rising draws, each one that still fits into k tokens
    bernoulli   every candidate, or every whole word, whose draw is below the rate

and of the hidden tokens a share ``mask`` is shown as `<mask>`, a share ``random`` as any ordinary entry of the
vocabulary, and the rest as they are. :class:`Masks` are those of a recipe.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.vocabularies.base import SPECIALS, UNKNOWN, Vocabulary
from probtrans_cli.errors import NothingToScoreError, RecipeError
from probtrans_cli.recipe.task import Masking
from probtrans_cli.tasks.batch import Batch, tensor

# Offset of the seeds of evaluation masks, so that the mask draws of dev and test are the same for every training seed.
EVALUATION_SEED = 20_230_000
STATIC_SEED = 20_190_000  # of masks that instances keep in training
_NEVER = 2.0  # larger than every draw


class Masks:
    """What a recipe hides, and what it shows instead."""

    def __init__(self, section: Masking, vocabulary: Vocabulary) -> None:
        """Raise a RecipeError where an entry that is never to be hidden is not in the vocabulary."""
        self.section = section
        self.vocabulary = vocabulary
        self.numbers = 2 if section.mask < 1.0 else 1  # uniform draws a token: whether it is hidden, and behind what
        names = [vocabulary.decode(id) for id in range(vocabulary.size)] if section.random or section.never else []
        specials = set(vocabulary.specials)
        self.ordinary = torch.tensor(
            [id for id, name in enumerate(names) if id not in specials and name] or [vocabulary.UNKNOWN]
        )
        ids = {name: id for id, name in enumerate(names)} | {SPECIALS[UNKNOWN]: vocabulary.UNKNOWN}
        for name in section.never:
            if name not in ids:
                hint = "write it as the vocabulary does (lower case, pieces with their mark), or leave it out"
                raise RecipeError(f"task.mlm.never: {name!r} is no entry of the vocabulary", hint=hint)
        never = specials - {vocabulary.UNKNOWN} | {ids[name] for name in section.never}
        self.never = torch.tensor(sorted(never))
        self._kept: dict[int | None, tuple[Split, np.ndarray]] = {}

    def uniform(self, batch: Batch, draw: int | None = None) -> Float[Tensor, "k b n"]:
        """Return uniform numbers for a batch in a ``draw`` of an evaluation; None: in training, where they are fresh,
        unless masks are kept.

        Kept ones are its part of the numbers of the whole split, of which the latest stay here; 1 where the batch is
        padded.
        """
        if draw is None and self.section.dynamic:
            return torch.rand(self.numbers, *batch.ids.shape).to(batch.ids.device)
        kept = self._kept.get(draw)
        if kept is None or kept[0] is not batch.split:
            shape: Any = (self.numbers, int(batch.split.lengths.sum()))
            if draw is None:
                uniform = np.random.default_rng(STATIC_SEED).random(shape, dtype=np.float32)
            elif (seed := self.section.eval_seed) is None:
                uniform = np.random.default_rng(EVALUATION_SEED + draw).random(shape, dtype=np.float32)
            else:  # numpy's old generator, seeded with a list, is Python's own
                uniform = np.random.RandomState([seed + draw]).random_sample(shape)
            if draw is not None:  # of evaluations one draw at a time
                self._kept = {key: value for key, value in self._kept.items() if key is None}
            kept = self._kept[draw] = batch.split, uniform
        of_batch = [batch.split.padded_values(values, batch.indices, 1.0) for values in kept[1]]
        return torch.stack([tensor(values, batch.ids.device) for values in of_batch])

    def hidden(self, batch: Batch, draw: Tensor) -> Bool[Tensor, "b n"]:
        """Return which tokens are hidden."""
        section = self.section
        # Where some words have no id, each of the others has one, which is the first of several words.
        by_word = section.whole_word and batch.first is not None and not self.vocabulary.omits
        return chosen(
            ~torch.isin(batch.ids, self.never.to(batch.ids.device)),
            tensor(batch.split.lengths[batch.indices].astype(np.int64), batch.ids.device),
            draw[0],
            rate=section.rate,
            count=section.count,
            largest=section.max_per_seq,
            first=batch.first if by_word else None,
        )

    def shown(
        self, ids: Int[Tensor, "b n"], hidden: Bool[Tensor, "b n"], draw: Float[Tensor, "k b n"]
    ) -> Int[Tensor, "b n"]:
        """Return what the model reads in place of ``ids``: of the ``hidden`` tokens a share is shown as `<mask>`, a
        share as an ordinary entry of the vocabulary, all equally likely, and the rest as they are."""
        mask, random, uniform = self.section.mask, self.section.random, draw[-1]
        shown = ids.masked_fill(hidden & (uniform < mask), self.vocabulary.MASK)
        if random == 0.0:
            return shown
        # Within its share the draw is uniform once more.
        ordinary = self.ordinary.to(ids.device)
        which = ((uniform - mask) / random * len(ordinary)).long().clamp(0, len(ordinary) - 1)
        return torch.where(hidden & (uniform >= mask) & (uniform < mask + random), ordinary[which], shown)


def nothing_hidden() -> NothingToScoreError:
    """Make the error of a corpus in which no token is ever hidden."""
    return NothingToScoreError(
        "there is no word to hide: every word is unknown, or the text is too short for a mask",
        hint="score more text, of words that the model knows",
    )


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
    """Choose the tokens that are hidden.

    Args:
        candidates: True where a token may be hidden.
        rate: share of the tokens.
        count: as many as the rate says, or each by itself.
        largest: of an exact count, the largest one; None = any.
        first: hide whole words: the position of each word's first token, n or more behind the last word. The word's
            draw is that of its first token.
    """
    b, n = draw.shape
    if count == "bernoulli" and first is None:
        return candidates & (draw < rate)
    number = (lengths.double() * rate).round().long().clamp(min=1, max=largest)
    if first is None:
        order = draw.masked_fill(~candidates, _NEVER).argsort(dim=1, stable=True)
        ranks = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=draw.device).expand_as(order))
        return candidates & (ranks < number[:, None])
    starts = draw.new_zeros(b, n + 1, dtype=torch.int64).scatter_(1, first.clamp(max=n), 1)[:, :n]
    word = starts.cumsum(1) - 1  # of every token; -1 in front of the first word
    sizes = draw.new_zeros(first.shape, dtype=torch.int64).scatter_add_(
        1, word.clamp(min=0), (candidates & (word >= 0)).long()
    )
    of_words = draw.gather(1, first.clamp(max=n - 1)).masked_fill((first >= n) | (sizes == 0), _NEVER)
    chosen_words = of_words < rate if count == "bernoulli" else _fitting(of_words, sizes, number)
    return candidates & (word >= 0) & chosen_words.gather(1, word.clamp(min=0))


def _fitting(draw: Float[Tensor, "b w"], sizes: Int[Tensor, "b w"], number: Int[Tensor, " b"]) -> Bool[Tensor, "b w"]:
    """Take words, one after the other by rising draws, where each still fits."""
    order = draw.argsort(dim=1, stable=True)
    by_draw, is_word = sizes.gather(1, order), draw.gather(1, order) < _NEVER
    used = torch.zeros_like(number)
    fits = torch.zeros_like(is_word)
    for rank in range(order.shape[1]):
        fits[:, rank] = is_word[:, rank] & (used + by_draw[:, rank] <= number)
        used = used + by_draw[:, rank] * fits[:, rank]
    return torch.zeros_like(fits).scatter_(1, order, fits)
