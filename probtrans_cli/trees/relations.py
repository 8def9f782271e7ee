"""Which channel finds which gold relation: recall and precision of unlabelled trees, relation by relation.

Over the words of a file, each of which has one gold relation to its head and, in the trees of every channel, one head:

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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probtrans_cli.trees import bootstrap
from probtrans_cli.trees.forest import Forest, compare, conventions, rule_trees

Relations = dict[str, dict[str, Any]]


def relation_scores(
    gold: Sequence[np.ndarray],
    relations: Sequence[str],
    predicted: Mapping[str, Sequence[np.ndarray]],
    punct: Sequence[np.ndarray] | None,
    frequency: Sequence[np.ndarray],
) -> dict[str, dict[str, Relations]]:
    """Tables ``{"no_punct": {"relations": {...}, "subtypes": {...}}, "with_punct": ...}``, see the module's docstring.

    ``relations`` are universal ones (`nsubj:pass` counts as `nsubj`), the most frequent first; ``subtypes`` are full
    labels with a colon. Each has ``words``; ``recall``, ``undirected`` and ``precision`` by channel; ``floors``, the
    recall of trees by rules; and ``best``, a channel by name with ``floor``, ``above_floor`` and its interval.

    Args:
        gold: heads of every sentence, 0 = root, 1..n = word; with tokens that ``no_punct`` leaves out in ``punct`` and
            the words' counts in the training file in ``frequency``, as in :mod:`probtrans_cli.trees.score`.
        relations: the full label of every word, all sentences one after the other.
        predicted: heads of every sentence by channel; a name that is no number is never the best.
    """
    forests = {channel: Forest.of(heads) for channel, heads in predicted.items()}
    counts = np.concatenate([np.zeros(0), *frequency])
    labels = np.array(relations, dtype=np.str_)
    universal = np.array([label.partition(":")[0] for label in relations], dtype=np.str_)
    result = {}
    for name, keep, tree in conventions(gold, punct):
        found = _Found(
            tree,
            {channel: compare(tree, forest.kept(keep)) for channel, forest in forests.items()},
            {rule: compare(tree, forest)[0] for rule, forest in rule_trees(tree, counts[keep]).items()},
        )
        full = found.table(labels[keep])
        subtypes = {label: row for label, row in full.items() if ":" in label}
        result[name] = {"relations": found.table(universal[keep]), "subtypes": subtypes}
    return result


class _Found:
    """What channels and rules find of one set of gold trees, word by word."""

    def __init__(
        self, gold: Forest, channels: Mapping[str, tuple[np.ndarray, np.ndarray]], rules: Mapping[str, np.ndarray]
    ) -> None:
        edge = gold.heads != 0
        self.gold = gold
        self.right = {channel: right for channel, (right, _) in channels.items()}
        self.either = {channel: right & edge | swapped for channel, (right, swapped) in channels.items()}
        self.rules = rules

    def table(self, labels: np.ndarray) -> Relations:
        """One row a label, by falling number of words, equal numbers alphabetically."""
        names, which, words = np.unique(labels, return_inverse=True, return_counts=True)
        edges = np.bincount(which, self.gold.heads != 0, minlength=len(names))
        columns = {
            "recall": _shares(which, self.right, words),
            "undirected": _shares(which, self.either, edges),
            "precision": _shares(which, self.right, np.full(len(names), len(labels))),
            "floors": _shares(which, self.rules, words),
        }
        best = self._best(which, columns["recall"], columns["floors"])
        order = sorted(range(len(names)), key=lambda row: (-words[row], names[row]))
        return {
            str(names[row]): {
                "words": int(words[row]),
                **{column: {one: _number(of[one][row]) for one in of} for column, of in columns.items()},
                "best": best[row],
            }
            for row in order
        }

    def _best(
        self, which: np.ndarray, recall: Mapping[str, np.ndarray], floors: Mapping[str, np.ndarray]
    ) -> list[dict[str, Any]]:
        """Of every label the channel and the rule with the highest recall, and how far they are apart."""
        channels, rules = [one for one in recall if one.isdecimal()], list(floors)
        channel = np.stack([recall[one] for one in channels]).argmax(axis=0)
        rule = np.stack([floors[one] for one in rules]).argmax(axis=0)
        word = np.arange(len(which))
        gain = np.stack([self.right[one] for one in channels])[channel[which], word].astype(np.int64)
        gain -= np.stack([self.rules[one] for one in rules])[rule[which], word]
        shape = len(self.gold.lengths), len(channel)
        cell = self.gold.sentence * shape[1] + which  # sentence by label
        gains = np.bincount(cell, gain, minlength=shape[0] * shape[1]).reshape(shape)
        words = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        drawn = bootstrap.ratio(bootstrap.totals(gains), bootstrap.totals(words))
        return [
            {
                "channel": channels[channel[row]],
                "floor": rules[rule[row]],
                "above_floor": float(gains[:, row].sum() / words[:, row].sum()),
                "above_floor_interval": bootstrap.interval(drawn[:, row], int((words[:, row] > 0).sum())),
            }
            for row in range(shape[1])
        ]


def _shares(which: np.ndarray, values: Mapping[str, np.ndarray], whole: np.ndarray) -> dict[str, np.ndarray]:
    """The sum of each of ``values`` over the words of every label, divided by ``whole``."""
    return {
        name: bootstrap.ratio(np.bincount(which, each, minlength=len(whole)), whole) for name, each in values.items()
    }


def _number(share: float) -> float | None:
    return None if np.isnan(share) else float(share)
