"""What a trained model says of words: head marginals, the trees that are read from them, latent labels, predictions.

A :class:`Reading` says which head marginals are read as trees, and by which decoder. A word that is not read is
nobody's head and hangs at its host, whatever the decoder. Extra words, which some tasks add behind a sentence, are no
part of anything here: a head is conditioned on being another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.ranks import ALONE, Ranks
from probtrans_cli.models.base import Outputs, Wants
from probtrans_cli.tasks.answers import without_members
from probtrans_cli.tasks.base import Prediction
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.abstention import Abstention
from probtrans_cli.trained.inner import inner_doubt, with_inner_doubt, with_inner_wants
from probtrans_cli.trees import decode

if TYPE_CHECKING:
    from probtrans_cli.trained.model import Model
    from probtrans_cli.trained.predictor import Predictor

Channel = int | Literal["mean"]

# Head marginals of a batch that are taken out of the network at once: 256 MB; a single longer sentence may have more.
ARC_CELLS = 1 << 26


@dataclass(frozen=True)
class Reading:
    """Which head marginals are read as trees: ``channel`` (number or mean), ``iteration`` (1..T or -1), ``decoder``."""

    channel: Channel
    iteration: int
    decoder: decode.Method
    chosen_on: str | None = None

    def describe(self) -> str:
        """For people: `channel 3, last iteration, eisner`."""
        iteration = "last iteration" if self.iteration == -1 else f"iteration {self.iteration}"
        chosen = f", chosen on {self.chosen_on}" if self.chosen_on else ""
        return f"channel {self.channel}, {iteration}, {self.decoder}{chosen}"


@dataclass
class WordBatch:
    """What the encoder says of a batch of words: sentence indices [b], mask [b, n], and what was asked for. The mask is
    True at the sentences' own words, extra words are not among them.

    ``arcs [b, t, h, n, n (+1)]``: head marginals of some iterations, over the words and the root, if there is one.
    ``latent_labels [b, n, d]``: distributions over the latent labels, last iteration. All of these are empty unless
    asked for.
    ``member_arcs``: those of each draw of uncertain weights, of which ``arcs`` are the mean.
    ``predictions``: of the task, one a sentence.
    ``host [b, n]``: where some words are not read, the word at which such a one hangs, -1 for words that are read.
    """

    indices: np.ndarray
    mask: np.ndarray
    arcs: np.ndarray = field(default_factory=lambda: np.zeros(0))
    member_arcs: Sequence[np.ndarray] = ()
    latent_labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    predictions: Sequence[Prediction] = ()
    host: np.ndarray | None = None


@torch.inference_mode()
def word_batches(
    model: Model,
    split: Split,
    *,
    arcs: Sequence[int] = (),
    latent_labels: bool = False,
    predict: bool = False,
    top: int | None = None,
    shown: Callable[[Batch], Batch] = lambda batch: batch,
    predictor: Predictor | None = None,
    member_arcs: bool = False,
    abstention: Abstention | None = None,
    ranks: Ranks = ALONE,
) -> Iterator[WordBatch]:
    """What a model says of a split's words, batch by batch, in one pass; only what is asked for.

    ``arcs``: the iterations whose arcs are wanted, ascending, from 1. ``predict``: what its task says, with ``top``
    alternatives. ``shown``: a batch as the network is to see it; by default nothing is hidden. ``predictor``: who is
    asked, also for its doubt; None: the model as its recipe says. ``member_arcs``: also the arcs of each draw of
    uncertain weights. ``abstention``: which predictions are left out. ``ranks``: the processes that share the batches.
    """
    asked = (predictor or model.predictor).ready()
    asked = asked.with_member_arcs() if member_arcs else asked
    # The doubt inside the network is part of what is said of a sentence.
    inner = predict and asked.doubt
    words = Wants(arcs=arcs, states=latent_labels)
    words = with_inner_wants(model, asked, words) if inner else words
    of_pair = len(words.arcs) * model.recipe.model.channels * asked.kept_arcs
    batches = ranks.share(model.evaluation().batches(split))
    for indices in chain.from_iterable(divided(split, batch, of_pair) for batch in batches):
        given = shown(model.collate(split, indices))
        of_task = predict and not model.task.says_nothing(given)
        wants = replace(model.task.wants(given) if of_task else Wants(), arcs=words.arcs, states=words.states)
        if wants.scores or wants.states or wants.arcs:
            with model.machine.autocast():
                outputs = asked(given, wants)
        else:
            outputs = Outputs()
        own = _own_words(given.words, model.task.extra)
        outputs = _without_heads(outputs, given.tokens_of(given.words & ~own)) if model.task.extra else outputs
        batch = WordBatch(indices, own.cpu().numpy())
        if predict:
            batch.predictions = model.task.predict(outputs, given, top)
            if asked.doubt and not asked.several:
                batch.predictions = without_members(batch.predictions)
            if inner:
                inside = inner_doubt(model, asked, outputs)
                batch.predictions = with_inner_doubt(batch.predictions, inside, given.tokens_of(own))
            if abstention is not None:
                batch.predictions = [abstention.applied(model.task, one) for one in batch.predictions]
        if split.has("read"):
            batch.host = _hosts(split.padded("read", indices, True))
        # The token that stands for each word.
        first = None if given.first is None else given.first.masked_fill(~given.words, 0).cpu().numpy()
        if arcs:
            assert outputs.arcs is not None, "a network returns arcs when asked"
            tokens, root = given.ids.shape[1], model.has_root_column
            batch.arcs = _of_words(outputs.arcs[:, : len(arcs)], tokens, root, first)
            if outputs.member_arcs is not None:
                members = (_of_words(one[:, : len(arcs)], tokens, root, first) for one in outputs.member_arcs)
                batch.member_arcs = list(members)
        if latent_labels:
            assert outputs.states is not None, "a network returns states when asked"
            batch.latent_labels = model.network.encoder.latent_labels(outputs.states.float()).cpu().numpy()
            if first is not None:
                batch.latent_labels = np.take_along_axis(batch.latent_labels, first[:, :, None], axis=1)
        yield batch


def _own_words(words: Tensor, extra: int) -> Tensor:
    """Which of these words ``[b, n]`` are a sentence's own: all but the last ``extra`` ones."""
    return words & (words.cumsum(1) <= words.sum(1, keepdim=True) - extra)


def _without_heads(outputs: Outputs, left_out: Tensor) -> Outputs:
    """The same outputs with arcs of which these tokens ``[b, n]`` are no heads: the probabilities of all other heads,
    on condition that it is none of these."""

    def among_others(arcs: Tensor) -> Tensor:
        gone = functional.pad(left_out, (0, arcs.shape[-1] - left_out.shape[1]))
        kept = arcs.float().masked_fill(gone[:, None, None, None, :], 0.0)
        return kept / kept.sum(-1, keepdim=True).clamp(min=decode.SMALLEST_PROBABILITY)

    arcs, members = outputs.arcs, outputs.member_arcs
    return replace(
        outputs,
        arcs=None if arcs is None else among_others(arcs),
        member_arcs=None if members is None else among_others(members),
    )


def _of_words(arcs: Tensor, tokens: int, root: bool, first: np.ndarray | None) -> np.ndarray:
    """Arcs of the words and the root, from those of tokens and all else; ``first``: the token of each word."""
    found: np.ndarray = arcs[..., : tokens + root].float().cpu().numpy()
    if first is None:
        return found
    found = np.take_along_axis(found, first[:, None, None, :, None], axis=-2)
    heads = np.pad(first, ((0, 0), (0, root)), constant_values=tokens)
    return np.take_along_axis(found, heads[:, None, None, None, :], axis=-1)


class Read(NamedTuple):
    """A reading of the arcs of a batch: ``heads [b, n]`` (0 = root, 1..n, -1 = padding), the ``scores [b, n, n (+1)]``
    of all arcs, and of each draw of uncertain weights the same scores, where they were asked for."""

    heads: np.ndarray
    scores: np.ndarray
    of_members: Iterable[np.ndarray] = ()

    def probabilities(self, *, root: bool) -> np.ndarray:
        """Those of the heads, ``[b, n]``; NaN at the root if ``root`` is False: the model knows nothing of its arcs."""
        return _chosen(self.scores, self.heads, root)

    def deviations(self, *, root: bool) -> np.ndarray | None:
        """The standard deviations of these over draws of the weights, ``[b, n]``; None where there are none."""
        every = [_chosen(scores, self.heads, root) for scores in self.of_members]
        return np.std(every, axis=0) if every else None


def _chosen(scores: np.ndarray, heads: np.ndarray, root: bool) -> np.ndarray:
    """The probabilities of the arcs to ``heads``."""
    n = heads.shape[1]
    known = np.exp(scores)
    if not root:  # column -1, which is not the root's
        known = np.pad(known[:, :, :n], ((0, 0), (0, 0), (0, 1)), constant_values=np.nan)
    column = np.where(heads >= 0, heads, 0) - 1
    found: np.ndarray = np.take_along_axis(known, np.where(column < 0, known.shape[2] - 1, column)[:, :, None], 2)
    return found[:, :, 0]


def read_arcs(
    model: Model, split: Split, readings: Sequence[Reading], **more: Any
) -> Iterator[tuple[WordBatch, Iterator[Read]]]:
    """The batches of a split, each with every reading of it, in order; a reading is computed when its turn comes.
    ``more``: what else is asked of :func:`word_batches`."""
    last = model.recipe.model.iterations
    numbers = [last if reading.iteration == -1 else reading.iteration for reading in readings]
    iterations = sorted(set(numbers))

    def scores_of(arcs: np.ndarray, batch: WordBatch, reading: Reading, number: int) -> np.ndarray:
        return _with_unread(decode.arc_scores(arcs, reading.channel, 1 + iterations.index(number)), batch)

    def read(batch: WordBatch) -> Iterator[Read]:
        for reading, number in zip(readings, numbers, strict=True):
            scores = scores_of(batch.arcs, batch, reading, number)
            heads = decode.decode(decode.levelled(scores), batch.mask, reading.decoder)
            yield Read(heads, scores, [scores_of(one, batch, reading, number) for one in batch.member_arcs])

    for batch in word_batches(model, split, arcs=iterations, **more):
        yield batch, read(batch)


def trees_of(
    model: Model,
    split: Split,
    readings: Sequence[Reading],
    predictor: Predictor | None = None,
    ranks: Ranks = ALONE,
) -> list[list[np.ndarray]]:
    """Decoded heads of every sentence, 0 = root, 1..n, for each of several readings; ``predictor``: who is asked;
    ``ranks``: the processes that share the work, each of which gets all of the trees."""
    result = [[chain_of(int(words)) for words in split.words] for _ in readings]
    read: dict[str, np.ndarray] = {}
    for batch, found in read_arcs(model, split, readings, predictor=predictor, ranks=ranks):
        for number, one in enumerate(found):
            for index, row, real in zip(batch.indices, one.heads, batch.mask, strict=True):
                read[f"{number} {index}"] = row[real]
    for part in ranks.together(read, "the trees of an evaluation"):
        for key, heads in part.items():
            number, index = map(int, key.split())
            result[number][index] = heads
    return result


def divided(split: Split, indices: np.ndarray, of_pair: int) -> list[np.ndarray]:
    """A batch in parts whose arcs fit into memory: there are ``of_pair`` numbers for every pair of words."""
    cells = of_pair * int(split.lengths[indices].max(initial=1)) ** 2
    return np.array_split(indices, -(-len(indices) // max(1, ARC_CELLS // max(cells, 1))))


def chain_of(words: int) -> np.ndarray:
    """The tree of a sentence of which nothing is read: a chain from left to right."""
    return np.arange(words, dtype=np.int64)


def _hosts(read: np.ndarray) -> np.ndarray:
    """The hosts, ``[b, n]``: a word that the vocabulary does not read becomes a leaf of its host, which is the nearest
    word before it that is read, or else the first one that is. -1 for words that are read."""
    before = np.maximum.accumulate(np.where(read, np.arange(read.shape[1]), -1), axis=1)
    return np.where(read, -1, np.where(before >= 0, before, read.argmax(axis=1)[:, None]))


def _with_unread(scores: np.ndarray, batch: WordBatch) -> np.ndarray:
    """Arc scores [b, n, n (+1)] in which words that are not read hang at their hosts, and nothing hangs at them."""
    if batch.host is None:
        return scores
    n = scores.shape[1]
    rooted = scores if scores.shape[2] > n else np.pad(scores, ((0, 0), (0, 0), (0, 1)))
    unread = batch.host >= 0
    scores = np.where(unread[:, :, None], -np.inf, rooted)
    scores[:, :, :n] = np.where(unread[:, None, :], -np.inf, scores[:, :, :n])
    sentence, word = unread.nonzero()
    scores[sentence, word, batch.host[sentence, word]] = 0.0
    return scores
