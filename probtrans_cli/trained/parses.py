"""The trees that a model sees in sentences, and all that it says about their heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import DataError
from probtrans_cli.trained.arcs import Channel, Reading, chain_of, read_arcs
from probtrans_cli.trained.latent_labels import most_probable
from probtrans_cli.trained.model import Model
from probtrans_cli.trees.analysis import Analysis, arc_probabilities
from probtrans_cli.trees.drawing.drawing import reads_right_to_left
from probtrans_cli.trees.drawing.html import LONGEST_WITH_MARGINALS


@dataclass(frozen=True)
class Tree:
    """A parsed sentence: ``heads`` [n] (0 = root, 1..n) and ``probabilities`` [n] of these arcs, NaN where not known.

    ``latent_labels``: the numbers [n, k] of each word's most probable ones and their probabilities [n, k], where asked
    for.
    """

    sentence: Sentence
    heads: np.ndarray
    probabilities: np.ndarray
    reading: Reading
    latent_labels: tuple[np.ndarray, np.ndarray] | None = None


def parsed(
    model: Model, sentences: Sequence[Sentence], readings: Sequence[Reading], latent_labels: int | None = None
) -> Iterator[Tree]:
    """The trees of some sentences, in order; for each sentence one tree per reading, with as many latent labels a word.

    Raises:
        DataError: after the trees of those before it: a sentence has more tokens than the encoder has positions.
    """
    corpus = Split.encode(sentences, model.vocabulary, model.labels)
    if fault := model.too_long(sentences, corpus):
        if fault[0]:
            yield from parsed(model, sentences[: fault[0]], readings, latent_labels)
        raise fault[1]
    trees = [[_not_read(sentence, reading, latent_labels) for reading in readings] for sentence in sentences]
    for batch, found in read_arcs(model, corpus, readings, latent_labels=latent_labels is not None):
        indices, mask = batch.indices, batch.mask
        best = None if latent_labels is None else most_probable(batch.latent_labels, latent_labels)
        for number, (reading, (decoded, scores)) in enumerate(zip(readings, found, strict=True)):
            chosen = np.exp(scores)
            if not model.has_root_column:  # which knows nothing of the root's arcs, column -1
                chosen = np.pad(chosen[:, :, : mask.shape[1]], ((0, 0), (0, 0), (0, 1)), constant_values=np.nan)
            for row, index in enumerate(indices):
                heads = decoded[row][mask[row]]
                probabilities = chosen[row, np.arange(len(heads)), heads - 1]
                if batch.host is not None:
                    probabilities = np.where(batch.host[row][mask[row]] < 0, probabilities, np.nan)
                of_words = None if best is None else (best[0][row][mask[row]], best[1][row][mask[row]])
                trees[index][number] = Tree(sentences[index], heads, probabilities, reading, of_words)
    for sentence_trees in trees:
        yield from sentence_trees


def _not_read(sentence: Sentence, reading: Reading, latent_labels: int | None) -> Tree:
    """What stands for the tree of a sentence without a word to read."""
    n = len(sentence.words)
    none = None if latent_labels is None else (np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0)))
    return Tree(sentence, chain_of(n), np.full(n, np.nan), reading, none)


def no_gold(sentence: Sentence) -> DataError:
    """What to say of a sentence whose gold tree is to be shown."""
    return DataError(f"{sentence.where}: has no gold tree", hint="leave out --gold")


def analysed(
    model: Model, sentences: Sequence[Sentence], reading: Reading, *, gold: bool = False, strict: bool = False
) -> Iterator[Analysis]:
    """The trees of every iteration and channel and of the channels' mean, in order, with their marginals.

    ``reading`` names the decoder, and what a viewer sees first. ``gold``: with the sentences' own trees, if they
    have some; ``strict``: all must.

    Raises:
        DataError: a sentence has no tree that must have one, or more tokens than the encoder has positions.
    """
    section = model.recipe.model
    channels: list[Channel] = [*range(section.channels), "mean"]
    iterations = range(1, section.iterations + 1)
    readings = [replace(reading, channel=one, iteration=number) for number in iterations for one in channels]
    shape = (len(iterations), len(channels))
    corpus = Split.encode(sentences, model.vocabulary, model.labels)
    if fault := model.too_long(sentences, corpus):
        raise fault[1]
    heads = {index: np.tile(chain_of(len(one.words)), (len(readings), 1)) for index, one in enumerate(sentences)}
    probabilities = {index: np.full(of_words.shape, np.nan) for index, of_words in heads.items()}
    marginals: dict[int, np.ndarray] = {}  # of sentences that are short enough: they grow with the square
    for batch, found in read_arcs(model, corpus, readings):
        n = batch.mask.shape[1]
        for number, (decoded, scores) in enumerate(found):
            known = np.exp(scores[:, :, : n + model.has_root_column])
            for row, (index, real) in enumerate(zip(batch.indices, batch.mask, strict=True)):
                heads[index][number] = decoded[row][real]
                of_words = known[row][real][:, np.pad(real, (0, model.has_root_column), constant_values=True)]
                probabilities[index][number] = arc_probabilities(heads[index][None, None, number], of_words[None, None])
                if len(of_words) <= LONGEST_WITH_MARGINALS:
                    kept = marginals.setdefault(index, np.zeros((len(readings), *of_words.shape), dtype=np.float32))
                    kept[number] = of_words
    for index, sentence in enumerate(sentences):
        if gold and strict and sentence.heads is None:
            raise no_gold(sentence)
        of_pairs = marginals.get(index)
        yield Analysis(
            words=tuple(sentence.words),
            heads=heads[index].reshape(*shape, len(sentence.words)),
            probabilities=probabilities[index].reshape(*shape, len(sentence.words)),
            marginals=None if of_pairs is None else of_pairs.reshape(*shape, *of_pairs.shape[1:]),
            gold=tuple(sentence.heads) if gold and sentence.heads is not None else None,
            channel=reading.channel,
            iteration=reading.iteration,
            right_to_left=reads_right_to_left(sentence.words),
        )
