"""Attachment scores of predicted heads against gold trees, and which channel finds which gold relation.

``uas``: share of words with the right head, root arcs included. ``uuas``: share of gold arcs between two words that the
prediction has in either direction; root arcs are not counted, and a circle of two words counts once. It is the sum of
``directed``, the arcs with the right head, and ``swapped``, those that are there with head and dependent swapped only.
All are fractions of 1, and None where there is nothing to count. ``uas_interval`` and ``uuas_interval`` hold the middle
95 % of a thousand bootstrap draws of the file's sentences (Efron 1979; for parsers: Berg-Kirkpatrick et al. 2012). All
scores of a file are computed from the same draws, so that differences between them can be judged, too.

Conventions, always reported side by side (:data:`CONVENTIONS`): punctuation removed or every token, all lengths or
sentences of at most ``10`` words, counted after the removal.

Relation by relation, over the words of a file, each of which has one gold relation to its head and, in the trees of
every channel, one head:

    recall       of the words with the relation, the share whose head is right
    undirected   of those of them that have a word as their head, the share whose arc is there in either direction
    precision    of all arcs of the channel, one a word, the share that is a gold arc of this relation

So precision is recall times the relation's share of the words, and the precisions of a channel add up to its UAS:
recall tells what a channel is good at, precision what it consists of. Root arcs count as arcs of the relation `root`.

The best channel of a relation is the numbered one with the highest recall, ties to the first. It is chosen on the very
words that it is described by: of several channels one is always the best, so this describes a model and scores none.
A channel is a specialist only above chance, and many a relation is mostly between neighbours: ``above_floor`` is how
much more it recalls than the best of the rules that need no model, ``above_floor_interval`` its bootstrap interval over
sentences, channel and rule held fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

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
Relations = dict[str, dict[str, Any]]


def attachment(
    gold: Sequence[np.ndarray], predicted: Sequence[np.ndarray], punct: Sequence[np.ndarray] | None
) -> Scores:
    """Return scores of heads, ``{"no_punct": {"all": {"uas", "uuas", ...}, "10": ...}, "with_punct": ...}``.

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
) -> dict[str, Scores]:
    """Return scores of five trees that need no model, in the conventions of :func:`attachment`.

    Each tree is built over the kept words. ``next_word``, ``previous_word``, ``nearest_rarer`` and ``untrained_bias``:
    see :func:`probtrans_cli.trees.forest.rule_trees`, with ``frequency`` one array a sentence; ``random_tree``: the
    mean of ten trees, each uniform over all n^(n-1) labelled rooted trees of its length.
    """
    names = ("next_word", "previous_word", "random_tree", "nearest_rarer", "untrained_bias")
    result: dict[str, Scores] = {name: {} for name in names}
    for name, keep, tree in conventions(gold, punct):
        counts = np.concatenate([np.zeros(0), *frequency])[keep]
        random = np.random.default_rng(0)
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
    scores: dict[str, Counts] = {}
    for (name, group), of_draws in zip(groups.items(), np.split(drawn, len(groups), axis=1), strict=True):
        right, directed, swapped, words, arcs = counts[group].sum(axis=0).tolist()
        drawn_right, drawn_directed, drawn_swapped, drawn_words, drawn_arcs = of_draws.T
        scores[name] = {
            "uas": right / words if words else None,
            "uas_interval": bootstrap_interval(ratio(drawn_right, drawn_words), int(group.sum())),
            "uuas": (directed + swapped) / arcs if arcs else None,
            "uuas_interval": bootstrap_interval(
                ratio(drawn_directed + drawn_swapped, drawn_arcs), int((counts[group, 4] > 0).sum())
            ),
            "directed": directed / arcs if arcs else None,
            "swapped": swapped / arcs if arcs else None,
            "sentences": int(group.sum()),
            "words": int(words),
            "arcs": int(arcs),
        }
    return scores


# --- bootstrap intervals over sentences -------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def bootstrap_weights(sentences: int) -> np.ndarray:
    """Draw the sentences of a file ``DRAWS`` times with replacement; uint8 counts ``[DRAWS, sentences]``.

    The draws are always the same.
    """
    random = np.random.default_rng(0)
    weights = np.zeros((DRAWS, sentences), dtype=np.uint8)  # no sentence is drawn 256 times: once in 10^500 files
    for draw in range(DRAWS):
        weights[draw] = np.bincount(random.integers(0, max(sentences, 1), sentences), minlength=sentences)
    weights.setflags(write=False)
    return weights


def bootstrap_totals(counts: np.ndarray) -> np.ndarray:
    """Sum ``counts [S, k]`` over the sentences of each draw: ``[DRAWS, k]``."""
    weights, counts = bootstrap_weights(len(counts)), counts.astype(np.float32)
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


# --- relation by relation ---------------------------------------------------------------------------------------------


def relation_scores(
    gold: Sequence[np.ndarray],
    relations: Sequence[str],
    predicted: Mapping[str, Sequence[np.ndarray]],
    punct: Sequence[np.ndarray] | None,
    frequency: Sequence[np.ndarray],
) -> dict[str, dict[str, Relations]]:
    """Return tables ``{"no_punct": {"relations": {...}, "subtypes": {...}}, "with_punct": ...}``, see the module.

    ``relations`` are universal ones (`nsubj:pass` counts as `nsubj`), the most frequent first; ``subtypes`` are full
    labels with a colon. Each has ``words``; ``recall``, ``undirected`` and ``precision`` by channel; ``floors``, the
    recall of trees by rules; and ``best``, a channel by name with ``floor``, ``above_floor`` and its interval.

    Args:
        gold: heads of every sentence, 0 = root, 1..n = word; with tokens that ``no_punct`` leaves out in ``punct`` and
            the words' counts in the training file in ``frequency``.
        relations: the full label of every word, all sentences one after the other.
        predicted: heads of every sentence by channel; a name that is no number is never the best.
    """
    forests = {channel: Forest.of(heads) for channel, heads in predicted.items()}
    counts = np.concatenate([np.zeros(0), *frequency])
    labels = np.array(relations, dtype=np.str_)
    universal = np.array([label.partition(":")[0] for label in relations], dtype=np.str_)
    result = {}
    for name, keep, tree in conventions(gold, punct):
        channels = {channel: compare(tree, forest.restricted(keep)) for channel, forest in forests.items()}
        rules = {rule: compare(tree, forest)[0] for rule, forest in rule_trees(tree, counts[keep]).items()}
        full = _relation_table(tree, labels[keep], channels, rules)
        subtypes = {label: row for label, row in full.items() if ":" in label}
        by_relation = _relation_table(tree, universal[keep], channels, rules)
        result[name] = {"relations": by_relation, "subtypes": subtypes}
    return result


def _relation_table(
    gold: Forest,
    labels: np.ndarray,
    channels: Mapping[str, tuple[np.ndarray, np.ndarray]],
    rules: Mapping[str, np.ndarray],
) -> Relations:
    """Return one row a label, by falling number of words, equal numbers alphabetically.

    ``channels``: the right and the swapped words of each, as of :func:`compare`; ``rules``: the right ones.
    """
    names, which, words = np.unique(labels, return_inverse=True, return_counts=True)
    edge = gold.heads != 0
    right = {channel: is_right for channel, (is_right, _) in channels.items()}
    either = {channel: is_right & edge | swapped for channel, (is_right, swapped) in channels.items()}
    edges = np.bincount(which, edge, minlength=len(names))
    counted = {
        "recall": (right, words),
        "undirected": (either, edges),
        "precision": (right, np.full(len(names), len(labels))),
        "floors": (rules, words),
    }
    columns = {
        column: {
            name: ratio(np.bincount(which, of_words, minlength=len(names)), totals) for name, of_words in parts.items()
        }
        for column, (parts, totals) in counted.items()
    }
    # The best channel of each label, the best rule, and what the one finds above the other, sentence by sentence.
    numbered, rule_names = [name for name in channels if name.isdecimal()], list(rules)
    channel = np.stack([columns["recall"][name] for name in numbered]).argmax(axis=0)
    rule = np.stack([columns["floors"][name] for name in rule_names]).argmax(axis=0)
    word = np.arange(len(which))
    gain = np.stack([right[name] for name in numbered])[channel[which], word].astype(np.int64)
    gain -= np.stack([rules[name] for name in rule_names])[rule[which], word]
    shape = len(gold.lengths), len(names)
    cell = gold.sentence * shape[1] + which  # sentence by label
    gains = np.bincount(cell, gain, minlength=shape[0] * shape[1]).reshape(shape)
    in_sentences = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    drawn = ratio(bootstrap_totals(gains), bootstrap_totals(in_sentences))
    table = {}
    for row in sorted(range(len(names)), key=lambda row: (-words[row], names[row])):
        table[str(names[row])] = {
            "words": int(words[row]),
            **{
                column: {name: None if np.isnan(of[row]) else float(of[row]) for name, of in shares.items()}
                for column, shares in columns.items()
            },
            "best": {
                "channel": numbered[channel[row]],
                "floor": rule_names[rule[row]],
                "above_floor": float(gains[:, row].sum() / in_sentences[:, row].sum()),
                "above_floor_interval": bootstrap_interval(drawn[:, row], int((in_sentences[:, row] > 0).sum())),
            },
        }
    return table
