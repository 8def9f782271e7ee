"""What a model's latent labels are about: the most probable labels of words, and the words, tags and pairs of labels.

The label distribution of a word is that after the last iteration, from unmasked input (Wu & Tu 2023, section 2.2). Over
the words ``i`` of a corpus, with word types (or tags) ``w``:

    N(a, w) = Σ_{i: w_i = w} Q_i(a)                       expected count of a label with a type: ``counts [w, a]``
    share   = N(a, w) / N(a)                              how much of the label is this type
    pmi     = log2 [ N(a, w) N / (N(a) N(w)) ]            how much more often they meet than by chance, in bits

Types are ranked by ``share × pmi``, what each adds to the mutual information of the label and the types. By share alone
the most frequent words would lead for every label, by pmi alone words that occur once; this needs no least count.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from probtrans_cli.data.corpus.store import Split
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.errors import UsageError
from probtrans_cli.models.probabilistic.encoder import ProbabilisticEncoder
from probtrans_cli.trained.arcs import BatchOptions, word_batches
from probtrans_cli.trained.base import ModelBase

COLUMNS = {"words": "word", "upos": "tag", "xpos": "tag"}
LEAST_COUNT = 1.0  # a label with less than one word of a corpus, all words together, counts as not used
WORDS, TAGS, PAIRS = 8, 3, 3  # listed words and tags of a label, pairs of a channel and bucket
ROTARY_DISTANCES = (-3, -2, -1, 1, 2, 3)  # rotary scores have no buckets: these distances stand for all


def require_labels(model: ModelBase) -> None:
    """Refuse a model whose words have no latent labels."""
    if not model.recipe.model.facts.has_latent_labels:
        raise UsageError(
            f"--labels: the words of this model of kind {model.recipe.model.kind} have no latent labels",
            hint="leave it out, or give a model of kind probabilistic whose model.latent is categorical",
        )


def most_probable(distributions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` most probable labels of ``distributions [..., d]``, best first, ties by number, and their
    probabilities, both ``[..., min(count, d)]``."""
    labels = np.argsort(-distributions, axis=-1, kind="stable")[..., :count]
    return labels, np.take_along_axis(distributions, labels, axis=-1)


# --- words and tags of a corpus -----------------------------------------------------------------------------------


@dataclass
class Column:
    """One column of a corpus, type by type: ``values`` has the index in ``names`` for every word, -1 for none."""

    names: dict[str, int] = field(default_factory=dict)
    values: array[int] = field(default_factory=lambda: array("i"))


@dataclass
class Types:
    """The words and tags of all sentences that pass through, in order; words as the vocabulary normalises them."""

    normalise: Callable[[str], str]
    columns: dict[str, Column] = field(default_factory=lambda: {name: Column() for name in COLUMNS})

    def passing(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Yield the same sentences and collect their words and tags."""
        for sentence in sentences:
            no_tags = ["_"] * len(sentence.words)
            for name, column in self.columns.items():
                are_words, names = name == "words", column.names
                texts = map(self.normalise, sentence.words) if are_words else sentence.tags.get(name, no_tags)
                column.values.extend(
                    -1 if text == "_" and not are_words else names.setdefault(text, len(names)) for text in texts
                )
            yield sentence


def expected_counts(
    types: Types, words: Sequence[int], batches: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]], labels: int
) -> dict[str, np.ndarray]:
    """Return ``N(a, w)`` for every column of the corpus: ``[types, labels]``, summed batch by batch.

    ``words`` has the number of words of every sentence; a batch has sentence indices [b], label distributions
    [b, n, labels] of their words, and the mask of real words [b, n].
    """
    starts = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
    values = {name: np.asarray(column.values, dtype=np.int64) for name, column in types.columns.items()}
    counts = {name: np.zeros((len(column.names), labels)) for name, column in types.columns.items()}
    for indices, distributions, mask in batches:
        real = distributions[mask]
        where = (starts[indices][:, None] + np.arange(mask.shape[1]))[mask]
        for name, table in counts.items():
            of_words = values[name][where]
            order = np.argsort(of_words, kind="stable")
            order = order[np.searchsorted(of_words[order], 0) :]  # without words of no type
            if len(order):
                present, begins = np.unique(of_words[order], return_index=True)
                table[present] += np.add.reduceat(real[order].astype(table.dtype), begins, axis=0)
    return counts


@dataclass(frozen=True)
class Association:
    """Types that a label goes with, the most associated first; see the module's text for the numbers."""

    types: np.ndarray
    share: np.ndarray
    pmi: np.ndarray


def associations(counts: np.ndarray, labels: Sequence[int], size: int) -> Iterator[Association]:
    """Yield for each of ``labels`` at most ``size`` types of ``counts [types, d]`` that go with it more than by chance.

    A label that no word with a type has goes with none.
    """
    by_type = counts.sum(1)
    total = by_type.sum()
    for label in labels:
        joint = counts[:, label]
        mass = joint.sum()
        present = np.flatnonzero(joint > 0)  # so that mass > 0 wherever it divides
        share = joint[present] / mass
        pmi = np.log2(share * total / by_type[present])
        best = np.argsort(-(share * pmi), kind="stable")[:size]
        best = best[pmi[best] > 0]
        yield Association(present[best], share[best], pmi[best])


# --- pairs of labels ----------------------------------------------------------------------------------------------


def bucket_names(distance: int | None, *, causal: bool = False) -> list[str]:
    """Name the distance buckets of Eq. 10 by where the head is, seen from the word (x = i - j); ``causal``: heads are
    earlier words alone."""
    if distance is None:
        return ["head at any distance"]
    beyond = f"more than {distance} " if distance else ""
    if causal:
        return [*(distance_name(x) for x in range(1, distance + 1)), f"head {beyond}to the left"]
    near = [distance_name(x) for x in range(-distance, distance + 1) if x]
    return [f"head {beyond}to the right", *near, f"head {beyond}to the left"]


def distance_name(x: int) -> str:
    """``x = i - j``, child minus head: positive where the head stands to the left."""
    return f"head {abs(x)} to the {'left' if x > 0 else 'right'}"


def strongest_pairs(scores: np.ndarray, used: Sequence[int], size: int) -> list[tuple[int, int, float]]:
    """Return the ``size`` largest entries of one matrix ``scores [d, d]`` of ``T``: child's label, head's label, score.

    Only of labels in ``used``: training has not moved the scores of others far from their random start.
    """
    part = scores[np.ix_(used, used)].ravel()
    size = min(size, len(part))
    largest = np.argpartition(-part, size - 1)[:size] if size else np.zeros(0, dtype=np.int64)
    largest = largest[np.lexsort((largest, -part[largest]))]
    return [(used[at // len(used)], used[at % len(used)], float(part[at])) for at in largest.tolist()]


def pairs_of(model: ModelBase, used: Sequence[int], size: int) -> list[dict[str, Any]]:
    """Return the strongest label pairs of every channel and distance bucket of ``T`` for JSON; where each iteration has
    its own ``T``, of the last iteration, with its number."""
    encoder = cast("ProbabilisticEncoder", model.network.encoder.top)
    section = encoder.section
    last = section.iterations
    iteration = {} if section.share_potentials else {"iteration": last}
    if not section.decomposition.has_buckets:
        distances = [x for x in ROTARY_DISTANCES if x > 0 or not section.causal]
        names = [distance_name(x) for x in distances]
        scores = encoder.ternary_scores(distances, last)
    else:
        names = bucket_names(section.distance, causal=section.causal)
        scores = encoder.ternary_scores(iteration=last)
    table = scores.detach().float().cpu().numpy()
    return [
        {
            **iteration,
            "channel": channel,
            "bucket": name,
            "pairs": [
                {"child": child, "head": head, "score": round(score, 6)}
                for child, head, score in strongest_pairs(table[bucket, channel], used, size)
            ],
        }
        for channel in range(table.shape[1])
        for bucket, name in enumerate(names)
    ]


# --- the whole ----------------------------------------------------------------------------------------------------


def describe(model: ModelBase, corpus: Split, types: Types, top: int | None) -> dict[str, Any]:
    """Describe the labels in a corpus, as `eval --labels` does, for JSON: ``labels``, ``unused_labels`` and ``pairs``.

    ``labels``: by falling share of the words; each with its expected ``count``, ``share`` of all words, and the
    ``words`` and, where the corpus has them, ``upos`` and ``xpos`` that go with it. ``unused_labels``: numbers of those
    with less than ``LEAST_COUNT`` words. ``pairs``: of the used labels, by channel and bucket. ``types`` are those of
    ``corpus``; ``top``: the number of words and pairs, None: 8 and 3. (Of tags three say it all.)
    """
    batches = (
        (batch.indices, batch.latent_labels, batch.mask)
        for batch in word_batches(model, corpus, BatchOptions(latent_labels=True))
    )
    counts = expected_counts(
        types, corpus.words.tolist(), batches, cast("ProbabilisticEncoder", model.network.encoder.top).facts.width
    )
    mass = counts["words"].sum(0)
    order = np.argsort(-mass, kind="stable")
    used = [int(label) for label in order if mass[label] >= LEAST_COUNT]
    labels: list[dict[str, Any]] = [
        {"label": label, "count": round(float(mass[label]), 3), "share": round(float(mass[label] / mass.sum()), 6)}
        for label in used
    ]
    for column, key in COLUMNS.items():
        names = list(types.columns[column].names)
        if names:
            associated = associations(counts[column], used, (top or WORDS) if column == "words" else TAGS)
            for entry, association in zip(labels, associated, strict=True):
                entry[column] = [
                    {
                        key: names[type],
                        "count": round(float(counts[column][:, entry["label"]][type]), 3),
                        "share": round(float(share), 6),
                        "pmi": round(float(pmi), 3),
                    }
                    for type, share, pmi in zip(
                        association.types.tolist(), association.share, association.pmi, strict=True
                    )
                ]
    return {
        "labels": labels,
        "unused_labels": sorted(set(range(len(mass))) - set(used)),
        "pairs": pairs_of(model, used, top or PAIRS),
    }
