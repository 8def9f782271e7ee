"""Attachment scores of predicted heads against gold trees, and the scores of trees that need no model.

``uas``: share of words with the right head, root arcs included. ``uuas``: share of gold arcs between two words that the
prediction has in either direction; root arcs are not counted, and a circle of two words counts once. It is the sum of
``directed``, the arcs with the right head, and ``swapped``, those that are there with head and dependent swapped only.
All are fractions of 1, and None where there is nothing to count. ``uas_interval`` and ``uuas_interval`` hold the middle
95 % of a thousand bootstrap draws of the file's sentences (Efron 1979; for parsers: Berg-Kirkpatrick et al. 2012). All
scores of a file are computed from the same draws, so that differences between them can be judged, too.

Conventions, always reported side by side (:data:`CONVENTIONS`): punctuation removed or every token, all lengths or
sentences of at most ``10`` words, counted after the removal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from probtrans_cli.trees.forest import Forest, compare, conventions, not_trees, random_heads, rule_trees

DRAWS = 1000
SHORT = 10
RANDOM_TREES = 10
CONVENTIONS = {
    "no_punct": "gold UPOS PUNCT and SYM removed, their children at the nearest kept ancestor",
    "with_punct": "all tokens",
}

Counts = dict[str, float | int | list[float] | None]
Scores = dict[str, dict[str, Counts]]


def attachment(
    gold: Sequence[np.ndarray], predicted: Sequence[np.ndarray], punct: Sequence[np.ndarray] | None
) -> Scores:
    """Scores of ``predicted`` heads: ``{"no_punct": {"all": {"uas", "uuas", ...}, "10": ...}, "with_punct": ...}``.

    Each list holds one array a sentence: heads as 0 = root, 1..n = word; ``punct`` is True for tokens that ``no_punct``
    leaves out. With ``punct=None`` only ``with_punct`` is reported. Sentences without a (kept) word are not counted.
    """
    forest = Forest.of(predicted)
    return {name: _scores(tree, _hits(tree, forest.restricted(keep))) for name, keep, tree in conventions(gold, punct)}


def warning_of_gold(gold: Sequence[np.ndarray], place: Callable[[int], str]) -> str | None:
    """Return a warning where gold heads are not trees, else None.

    They are scored all the same; without punctuation, a word that hangs on a circle of it hangs at the root.
    """
    odd = np.flatnonzero(not_trees(Forest.of(gold)))
    if not len(odd):
        return None
    count = "" if len(odd) == 1 else f", the first of {len(odd):,} such sentences"
    where = place(int(odd[0]))
    return f"warning: {where}: the gold heads are not a tree with one root{count}; they are scored all the same"


def floors(
    gold: Sequence[np.ndarray],
    punct: Sequence[np.ndarray] | None,
    frequency: Sequence[np.ndarray],
    seed: int = 0,
) -> dict[str, Scores]:
    """Scores of five trees that need no model, in the conventions of :func:`attachment`.

    Each tree is built over the kept words. ``next_word``, ``previous_word``, ``nearest_rarer`` and ``untrained_bias``:
    see :func:`probtrans_cli.trees.forest.rule_trees`, with ``frequency`` one array a sentence; ``random_tree``: the
    mean of ten trees, each uniform over all n^(n-1) labelled rooted trees of its length.
    """
    names = ("next_word", "previous_word", "random_tree", "nearest_rarer", "untrained_bias")
    result: dict[str, Scores] = {name: {} for name in names}
    for name, keep, tree in conventions(gold, punct):
        counts = np.concatenate([np.zeros(0), *frequency])[keep]
        random = np.random.default_rng(seed)
        draws = [_hits(tree, tree.replaced(random_heads(tree.lengths, random))) for _ in range(RANDOM_TREES)]
        result["random_tree"][name] = _scores(tree, np.mean(draws, axis=0))
        for rule, forest in rule_trees(tree, counts).items():
            result[rule][name] = _scores(tree, _hits(tree, forest))
    return result


def _hits(gold: Forest, predicted: Forest) -> np.ndarray:
    """Of every sentence the right words, and the gold arcs between words that are right and swapped: ``[S, 3]``."""
    right, swapped = compare(gold, predicted)
    count = len(gold.lengths)
    which = (right, right & (gold.heads != 0), swapped)
    return np.stack([np.bincount(gold.sentence, each, minlength=count) for each in which], axis=1)


def _scores(gold: Forest, hits: np.ndarray) -> dict[str, Counts]:
    arcs = np.bincount(gold.sentence, gold.heads != 0, minlength=len(gold.lengths))
    counts = np.column_stack([hits, gold.lengths, arcs])
    groups = {"all": gold.lengths > 0, str(SHORT): (gold.lengths > 0) & (gold.lengths <= SHORT)}
    drawn = bootstrap_totals(np.concatenate([counts * group[:, None] for group in groups.values()], axis=1))
    return {
        name: _group(counts[group], part)
        for (name, group), part in zip(groups.items(), np.split(drawn, len(groups), axis=1), strict=True)
    }


def _group(counts: np.ndarray, drawn: np.ndarray) -> Counts:
    """Scores of ``counts [S, 5]`` (right words, right arcs, swapped arcs, words, arcs) and of draws ``[DRAWS, 5]``."""
    right, directed, swapped, words, arcs = counts.sum(axis=0).tolist()
    of_arcs = int((counts[:, 4] > 0).sum())
    return {
        "uas": right / words if words else None,
        "uas_interval": bootstrap_interval(ratio(drawn[:, 0], drawn[:, 3]), len(counts)),
        "uuas": (directed + swapped) / arcs if arcs else None,
        "uuas_interval": bootstrap_interval(ratio(drawn[:, 1] + drawn[:, 2], drawn[:, 4]), of_arcs),
        "directed": directed / arcs if arcs else None,
        "swapped": swapped / arcs if arcs else None,
        "sentences": len(counts),
        "words": int(words),
        "arcs": int(arcs),
    }


# --- bootstrap intervals over sentences -------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def bootstrap_weights(sentences: int, seed: int = 0) -> np.ndarray:
    """Draw the sentences of a file ``DRAWS`` times with replacement; uint8 counts ``[DRAWS, sentences]``."""
    random = np.random.default_rng(seed)
    weights = np.zeros((DRAWS, sentences), dtype=np.uint8)  # no sentence is drawn 256 times: once in 10^500 files
    for draw in range(DRAWS):
        weights[draw] = np.bincount(random.integers(0, max(sentences, 1), sentences), minlength=sentences)
    weights.setflags(write=False)
    return weights


def bootstrap_totals(counts: np.ndarray, seed: int = 0) -> np.ndarray:
    """Sum ``counts [S, k]`` over the sentences of each draw: ``[DRAWS, k]``."""
    weights, counts = bootstrap_weights(len(counts), seed), counts.astype(np.float32)
    # As floats for BLAS, some draws at a time; float32 is exact up to 16 million words.
    blocks = [weights[start : start + 100].astype(np.float32) @ counts for start in range(0, DRAWS, 100)]
    return np.concatenate(blocks).astype(np.float64)


def bootstrap_interval(draws: np.ndarray, sentences: int) -> list[float] | None:
    """Return the middle 95 % of a score's values over draws (NaN: nothing to count in a draw).

    None where fewer than two ``sentences`` have anything to count: their draws would all be alike.
    """
    if sentences < 2:
        return None
    low, high = np.quantile(draws[~np.isnan(draws)], [0.025, 0.975])
    return [float(low), float(high)]


def ratio(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Divide ``part`` by ``total``; NaN where there is nothing to count."""
    return np.asarray(np.divide(part, total, out=np.full(part.shape, np.nan), where=total != 0))
