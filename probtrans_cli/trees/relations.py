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

from probtrans_cli.trees.forest import Forest, compare, conventions, rule_trees
from probtrans_cli.trees.score import bootstrap_interval, bootstrap_totals, ratio

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
        hits = _Hits(
            tree,
            {channel: compare(tree, forest.restricted(keep)) for channel, forest in forests.items()},
            {rule: compare(tree, forest)[0] for rule, forest in rule_trees(tree, counts[keep]).items()},
        )
        full = hits.table(labels[keep])
        subtypes = {label: row for label, row in full.items() if ":" in label}
        result[name] = {"relations": hits.table(universal[keep]), "subtypes": subtypes}
    return result


class _Hits:
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
                **{
                    column: {name: None if np.isnan(of[row]) else float(of[row]) for name, of in shares.items()}
                    for column, shares in columns.items()
                },
                "best": best[row],
            }
            for row in order
        }

    def _best(
        self, which: np.ndarray, recall: Mapping[str, np.ndarray], floors: Mapping[str, np.ndarray]
    ) -> list[dict[str, Any]]:
        channels, rules = [name for name in recall if name.isdecimal()], list(floors)
        channel = np.stack([recall[name] for name in channels]).argmax(axis=0)
        rule = np.stack([floors[name] for name in rules]).argmax(axis=0)
        word = np.arange(len(which))
        gain = np.stack([self.right[name] for name in channels])[channel[which], word].astype(np.int64)
        gain -= np.stack([self.rules[name] for name in rules])[rule[which], word]
        shape = len(self.gold.lengths), len(channel)
        cell = self.gold.sentence * shape[1] + which  # sentence by label
        gains = np.bincount(cell, gain, minlength=shape[0] * shape[1]).reshape(shape)
        words = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        drawn = ratio(bootstrap_totals(gains), bootstrap_totals(words))
        return [
            {
                "channel": channels[channel[row]],
                "floor": rules[rule[row]],
                "above_floor": float(gains[:, row].sum() / words[:, row].sum()),
                "above_floor_interval": bootstrap_interval(drawn[:, row], int((words[:, row] > 0).sum())),
            }
            for row in range(shape[1])
        ]


def _shares(which: np.ndarray, values: Mapping[str, np.ndarray], totals: np.ndarray) -> dict[str, np.ndarray]:
    return {name: ratio(np.bincount(which, each, minlength=len(totals)), totals) for name, each in values.items()}
