"""What a model says of words: head marginals, the trees that are decoded from them, latent labels, predictions.

A :class:`Reading` says which head marginals are read as trees, and by which decoder. A word that is not read is
nobody's head and hangs at its host, whatever the decoder. Extra words, which some tasks add behind a sentence, are no
part of anything here: a head is conditioned on being another word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.processes import ALONE, Ranks
from probtrans_cli.models.base import Outputs, Wants
from probtrans_cli.models.bayesian.readout import entropy
from probtrans_cli.tasks.base import Prediction, without_members
from probtrans_cli.tasks.batch import Batch
from probtrans_cli.trained.base import ModelBase, Reading
from probtrans_cli.trained.predictor import Draws, Predictor, inner_doubt, predictor_of, with_inner_wants
from probtrans_cli.trees import decode
from probtrans_cli.trees.best import Trees

# Head marginals of a batch that are taken out of the network at once: 256 MB; a single longer sentence may have more.
ARC_CELLS = 1 << 26


@dataclass
class WordBatch:
    """What a model says of a batch of words; what was not wanted is empty.

    ``indices`` [b]: of the sentences. ``mask`` [b, n]: True at the sentences' own words, without extra words.
    ``arcs [b, t, h, n, n (+1)]``: head marginals of some iterations, over the words and the root, if there is one.
    ``member_arcs``: those of each draw of uncertain weights, of which ``arcs`` are the mean.
    ``latent_labels [b, n, d]``: distributions over the latent labels, last iteration.
    ``predictions``: of the task, one a sentence.
    ``tree_scores``: where heads form trees, the scores of which ``arcs`` are the marginals, in the same form.
    ``trees``: those of the task, where it has some.
    ``host [b, n]``: where some words are not read, the word at which such a word hangs, -1 for words that are read.
    """

    indices: np.ndarray
    mask: np.ndarray
    arcs: np.ndarray = field(default_factory=lambda: np.zeros(0))
    member_arcs: Sequence[np.ndarray] = ()
    latent_labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    predictions: Sequence[Prediction] = ()
    host: np.ndarray | None = None
    tree_scores: np.ndarray | None = None
    trees: Trees | None = None


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """What is wanted of the words of a split, and who answers."""

    arcs: Sequence[int] = ()
    """The iterations whose arcs are wanted, ascending, from 1."""
    latent_labels: bool = False
    predict: bool = False
    """The predictions of the task, with ``top`` alternatives."""
    top: int | None = None
    shown: Callable[[Batch], Batch] = lambda batch: batch
    """Returns a batch as the network is to see it; by default nothing is hidden."""
    predictor: Predictor | None = None
    """The network itself, an ensemble, or Monte Carlo passes; None: as the model's recipe says."""
    member_arcs: bool = False
    """Also the arcs of each draw of uncertain weights."""
    trees: bool = False
    """Also distributions over trees, of heads that form trees and of the task's predictions."""
    ranks: Ranks = ALONE
    """The processes that share the batches."""


@torch.inference_mode()
def word_batches(model: ModelBase, split: Split, options: BatchOptions) -> Iterator[WordBatch]:
    """Yield what a model says of a split's words, batch by batch, in one pass."""
    arcs, predict = options.arcs, options.predict
    predictor = (options.predictor or predictor_of(model)).ready()
    kept_arcs = 1  # how often the arcs of a batch are in memory
    if options.member_arcs and isinstance(predictor, Draws) and predictor.several:
        # Only draws of the same weights have the same channels.
        predictor = replace(predictor, member_arcs=True)
        kept_arcs += predictor.samples
    wanted = Wants(arcs=arcs, states=options.latent_labels)
    inside = predict and predictor.doubt  # the uncertainty inside the network is part of a prediction
    wanted = with_inner_wants(model, predictor, wanted) if inside else wanted
    # Long sentences are cut into batches of their own, as arcs are as many as pairs of words.
    of_pair = len(wanted.arcs) * model.recipe.model.channels * (kept_arcs + options.trees)
    batches = options.ranks.share(model.evaluation().batches(split))
    trees_of = model.task.answers.trees if options.trees else None
    for indices in chain.from_iterable(divided(split, batch, of_pair) for batch in batches):
        inputs = options.shown(model.collate(split, indices))
        inputs = replace(inputs, arc_temperature=model.arc_temperature or 1.0)
        wants = model.task.wants(inputs) if predict else Wants()
        # In a batch without a hidden word, nothing is predicted.
        has_questions = wants.tokens is None or wants.sentence or bool(wants.tokens.any())
        wants = replace(wants if has_questions else Wants(), arcs=wanted.arcs, states=wanted.states)
        outputs = Outputs()
        if wants.scores or wants.states or wants.arcs:
            with model.machine.autocast():
                outputs = predictor(inputs, wants)
        own_words, left_out = inputs.words, None
        if extra := model.extra_words:  # the last words of a sentence are not its own, and nobody's heads
            own_words = own_words & (own_words.cumsum(1) <= own_words.sum(1, keepdim=True) - extra)
            left_out = inputs.tokens_of(inputs.words & ~own_words)
        outputs = _with_marginals(outputs, left_out, over_labels=model.recipe.model.facts.has_head_labels)
        batch = WordBatch(indices, own_words.cpu().numpy())
        if predict:
            batch.predictions = model.task.predict(outputs, inputs, options.top)
            if predictor.doubt and not predictor.several:
                batch.predictions = without_members(batch.predictions)
            if inside:
                entropies, tokens = inner_doubt(model, predictor, outputs), inputs.tokens_of(own_words)
                batch.predictions = [
                    {
                        **prediction,
                        **{
                            name: values[row][real].tolist()
                            for name, values in entropies.items()
                            if name not in prediction  # else the prediction has an entropy of its own
                        },
                    }
                    for row, (prediction, real) in enumerate(zip(batch.predictions, tokens, strict=True))
                ]
            batch.trees = trees_of(outputs, inputs) if trees_of else None
        batch.host = _hosts(split, indices)
        # The token that stands for each word.
        first = None if inputs.first is None else inputs.first.masked_fill(~inputs.words, 0).cpu().numpy()
        if arcs:
            assert outputs.arcs is not None, "a network returns arcs when asked"
            tokens_root = inputs.ids.shape[1], model.network.has_root_column
            batch.arcs = _of_words(outputs.arcs[:, : len(arcs)], *tokens_root, first)
            if outputs.member_arcs is not None:
                batch.member_arcs = [
                    _of_words(part[:, : len(arcs)], *tokens_root, first) for part in outputs.member_arcs
                ]
            batch.tree_scores = _tree_scores(model, predictor, inputs, arcs, first) if options.trees else None
        if options.latent_labels:
            assert outputs.states is not None, "a network returns states when asked"
            batch.latent_labels = model.network.encoder.top.latent_labels(outputs.states.float()).cpu().numpy()
            if first is not None:
                batch.latent_labels = np.take_along_axis(batch.latent_labels, first[:, :, None], axis=1)
        yield batch


def _hosts(split: Split, indices: np.ndarray) -> np.ndarray | None:
    # A word that the vocabulary does not read becomes a leaf of its host: the nearest word before it that is read, or
    # else the first word that is. -1 for words that are read.
    if not split.has("read"):
        return None
    read = split.padded("read", indices, True)
    before = np.maximum.accumulate(np.where(read, np.arange(read.shape[1]), -1), axis=1)
    return np.where(read, -1, np.where(before >= 0, before, read.argmax(axis=1)[:, None]))


def _tree_scores(
    model: ModelBase, predictor: Predictor, inputs: Batch, iterations: Sequence[int], first: np.ndarray | None
) -> np.ndarray | None:
    # Only where what forms trees is words.
    of_words = model.recipe.model.facts.encoders or model.vocabulary.omits or not model.vocabulary.divides
    if not of_words or model.extra_words:
        return None
    with model.machine.autocast():
        scores = predictor(inputs, Wants(tree_scores=iterations)).tree_scores
    return None if scores is None else _of_words(scores, inputs.ids.shape[1], model.network.has_root_column, first)


def _with_marginals(outputs: Outputs, left_out: Tensor | None, *, over_labels: bool) -> Outputs:
    changed: dict[str, Any] = {}
    for name in ("arcs", "member_arcs"):
        arcs: Tensor | None = getattr(outputs, name)
        if arcs is None:
            continue
        if over_labels:  # P(head), the sum over its labels
            arcs = arcs.float().sum(-3, keepdim=True)
        if left_out is not None:  # P(head | head is none of the tokens ``left_out [b, n]``)
            gone = functional.pad(left_out, (0, arcs.shape[-1] - left_out.shape[1]))
            kept = arcs.float().masked_fill(gone[:, None, None, None, :], 0.0)
            arcs = kept / kept.sum(-1, keepdim=True).clamp(min=decode.SMALLEST_PROBABILITY)
        changed[name] = arcs
    return replace(outputs, **changed)


def _of_words(arcs: Tensor, tokens: int, root: bool, first: np.ndarray | None) -> np.ndarray:
    # From arcs of tokens to those of words and the root; ``first``: the token of each word.
    of_words: np.ndarray = arcs[..., : tokens + root].float().cpu().numpy()
    if first is None:
        return of_words
    of_words = np.take_along_axis(of_words, first[:, None, None, :, None], axis=-2)
    heads = np.pad(first, ((0, 0), (0, root)), constant_values=tokens)
    return np.take_along_axis(of_words, heads[:, None, None, None, :], axis=-1)


class Read(NamedTuple):
    """A reading of the arcs of a batch.

    ``heads [b, n]``: 0 = root, 1..n, -1 = padding. ``scores [b, n, n (+1)]``: log-probabilities of all arcs, at the
    temperature that the model has for them; ``root``: whether it has scores of the root. ``of_members``: the scores of
    each draw of uncertain weights. ``trees``: distributions over trees, without a temperature, where they are wanted.
    """

    heads: np.ndarray
    scores: np.ndarray
    root: bool
    of_members: Sequence[np.ndarray] = ()
    trees: Trees | None = None

    def probabilities(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the probabilities of the heads, NaN at the root where the model knows nothing of its arcs; and their
        standard deviations over draws of the weights, None where there are none; ``[b, n]``."""
        n, of_each = self.heads.shape[1], []
        for scores in (self.scores, *self.of_members):
            probabilities = np.exp(scores)
            if not self.root:  # column -1, which is not the root's
                probabilities = np.pad(probabilities[:, :, :n], ((0, 0), (0, 0), (0, 1)), constant_values=np.nan)
            column = np.where(self.heads > 0, self.heads, probabilities.shape[2]) - 1
            of_each.append(np.take_along_axis(probabilities, column[:, :, None], 2)[:, :, 0])
        chosen, *members = of_each
        return chosen, np.std(members, axis=0) if members else None


def read_arcs(
    model: ModelBase,
    split: Split,
    readings: Sequence[Reading],
    options: BatchOptions = BatchOptions(),
) -> Iterator[tuple[WordBatch, Iterator[Read]]]:
    """Yield the batches of a split, each with every reading of it, in order; a reading is computed when its turn comes.
    ``options``: but for the arcs, which are those of the readings."""
    last, root = model.recipe.model.iterations, model.network.has_root_column
    numbers = [last if reading.iteration == -1 else reading.iteration for reading in readings]
    iterations = sorted(set(numbers))

    def read(batch: WordBatch) -> Iterator[Read]:
        for reading, number in zip(readings, numbers, strict=True):
            of_each = []  # the model, and each draw of its weights
            for arcs in (batch.arcs, *batch.member_arcs):
                scores = decode.arc_scores(arcs, reading.channel, 1 + iterations.index(number))
                if model.recipe.model.facts.is_causal:  # later words are no heads, whatever their floor
                    scores[:, *np.triu_indices(scores.shape[1], 1)] = -np.inf
                of_each.append(_with_unread(scores, batch))
            scores, *members = of_each
            # No temperature changes the trees, not even where it makes scores equal to rounding.
            of_heads = scores
            if reading.decoder == "argmax" and not root:  # there is no root to choose
                of_heads = scores[:, :, : scores.shape[1]]
            heads = decode.decode(decode.levelled(of_heads), batch.mask, reading.decoder)
            log_p = scores  # at the temperature
            temperature = model.arc_temperature_of(reading)
            if temperature or reading.channel == "mean":  # a mean of logarithms is no distribution by itself
                log_p, *members = (
                    tempered(each, batch.mask, temperature or 1.0, root=root) for each in (scores, *members)
                )
            if not options.trees:
                yield Read(heads, log_p, root, members)
                continue
            # In proportion to the product of the probabilities of the arcs, where no channel's heads form trees; trees
            # are as probable as the model says, and their arcs as the temperature does.
            n = log_p.shape[1]
            if batch.tree_scores is not None and (reading.channel != "mean" or batch.tree_scores.shape[2] == 1):
                channel = 0 if reading.channel == "mean" else reading.channel
                scores = batch.tree_scores[:, iterations.index(number), channel].astype(np.float64)
                scores = _with_unread(scores, batch)
            behind = (0, 0), (0, 0), (0, not root)
            probabilities = np.pad(np.exp(log_p[:, :, : n + root]), behind, constant_values=np.nan)
            if batch.host is not None:
                probabilities[batch.host >= 0] = np.nan
            # Without a root, all words are equally good ones.
            scores = scores if scores.shape[2] > n else np.pad(scores, ((0, 0), (0, 0), (0, 1)))
            yield Read(heads, log_p, root, members, Trees(scores, probabilities, reading.decoder))

    for batch in word_batches(model, split, replace(options, arcs=iterations)):
        yield batch, read(batch)


def tempered(
    scores: Float[np.ndarray, "b n m"], mask: Bool[np.ndarray, "b n"], temperature: float, *, root: bool
) -> Float[np.ndarray, "b n m"]:
    """Return ``ln softmax(scores / T)`` over the heads that a word may have: other words, and with ``root`` the root;
    -inf for what is no head."""
    scores = _possible(scores, mask, root) / temperature
    top = np.maximum(scores.max(axis=2, keepdims=True), -1e300)  # of a word without a head, where all are -inf
    sums = np.exp(scores - top).sum(axis=2, keepdims=True)
    return np.asarray(scores - top - np.log(np.maximum(sums, decode.SMALLEST_PROBABILITY)))


def _possible(scores: np.ndarray, mask: np.ndarray, root: bool) -> np.ndarray:
    n = mask.shape[1]
    heads = np.pad(mask, ((0, 0), (0, scores.shape[2] - n)), constant_values=root)
    itself = np.eye(n, scores.shape[2], dtype=bool)
    return np.where(mask[:, :, None] & heads[:, None, :] & ~itself, scores, -np.inf)


class HeadChoices(NamedTuple):
    """The heads that words of a batch may have, and the gold ones; a row a word.

    ``scores [m, k]``: log-probabilities without a temperature, up to a constant; -inf where there is no head. ``gold``,
    ``chosen`` [m]: columns of the gold heads and of those in the tree; -1 where the model has no such head: the root, a
    word that is not read, or, of a causal model, a later one. ``right [m]``. ``doubt [m]``: the entropy of the head
    variable, its mean over channels where their mean is read. ``sentences [m]``: numbers in the split.
    """

    scores: np.ndarray
    gold: np.ndarray
    chosen: np.ndarray
    right: np.ndarray
    doubt: np.ndarray
    sentences: np.ndarray


def head_choices(
    model: ModelBase, split: Split, reading: Reading, predictor: Predictor | None = None, ranks: Ranks = ALONE
) -> Iterator[HeadChoices]:
    """Yield, batch by batch, the heads of a split with gold trees. Left out are punctuation, words that are not read,
    and words that can have no head: without a root, the only word, and the first one of a causal model."""
    temperature, root = model.arc_temperature_of(reading) or 1.0, model.network.has_root_column
    for batch, trees in read_arcs(model, split, [reading], BatchOptions(predictor=predictor, ranks=ranks)):
        (tree,) = trees
        n = batch.mask.shape[1]
        possible = _possible(tree.scores, batch.mask, root)
        kept = np.isfinite(possible).any(2)
        gold = split.padded("heads", batch.indices, 0)
        room = (0, 0), (0, n - gold.shape[1])  # for the extra words of a batch
        gold = np.pad(gold, room)
        if split.has("punct"):
            kept &= ~np.pad(split.padded("punct", batch.indices, True), room).astype(bool)
        if batch.host is not None:
            kept &= batch.host < 0
        columns = np.stack([gold, tree.heads]) - 1
        columns[columns < 0] = n if root else -1
        of_channels = entropy(torch.from_numpy(batch.arcs[:, 0])).numpy()
        doubt = of_channels.mean(1) if reading.channel == "mean" else of_channels[:, reading.channel]
        scores, (golden, chosen) = possible[kept] * temperature, columns[:, kept]
        golden[~np.isfinite(scores[np.arange(len(golden)), golden])] = -1  # a word that is not read, or a later one
        right, sentences = (gold == tree.heads)[kept], batch.indices[kept.nonzero()[0]]
        yield HeadChoices(scores, golden, chosen, right, doubt[kept], sentences)


def trees_of(
    model: ModelBase,
    split: Split,
    readings: Sequence[Reading],
    predictor: Predictor | None = None,
    ranks: Ranks = ALONE,
) -> list[list[np.ndarray]]:
    """Return the decoded heads of every sentence, 0 = root, 1..n, for each of several readings; ``ranks``: the
    processes that share the work, each of which gets all of the trees."""
    result = [[chain_of(int(words)) for words in split.words] for _ in readings]
    decoded: dict[str, np.ndarray] = {}
    for batch, trees in read_arcs(model, split, readings, BatchOptions(predictor=predictor, ranks=ranks)):
        for number, tree in enumerate(trees):
            for index, row, real in zip(batch.indices, tree.heads, batch.mask, strict=True):
                decoded[f"{number} {index}"] = row[real]
    for part in ranks.together(decoded, "the trees of an evaluation"):
        for key, heads in part.items():
            number, index = map(int, key.split())
            result[number][index] = heads
    return result


def divided(split: Split, indices: np.ndarray, of_pair: int) -> list[np.ndarray]:
    """Cut a batch into parts whose arcs fit into memory: there are ``of_pair`` numbers for every pair of words."""
    cells = of_pair * int(split.lengths[indices].max(initial=1)) ** 2
    return np.array_split(indices, -(-len(indices) // max(1, ARC_CELLS // max(cells, 1))))


def chain_of(words: int) -> np.ndarray:
    """Return the tree of a sentence of which nothing is read: a chain from left to right."""
    return np.arange(words, dtype=np.int64)


def _with_unread(scores: np.ndarray, batch: WordBatch) -> np.ndarray:
    # Words that are not read hang at their hosts, and nothing hangs at them.
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
