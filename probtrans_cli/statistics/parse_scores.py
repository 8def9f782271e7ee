"""Scores of parses as the script of the CoNLL 2018 shared task counts them, where words are those of the gold file.

Over all words, punctuation included: ``uas``, the right head; ``las``, also the right relation; ``upos``, ``xpos``;
``ufeats``, the universal features. Relations count without subtypes (`nsubj:pass` is `nsubj`). ``clas`` and ``mlas``
are F1 over words with a relation of content: those with the right arc, and for ``mlas`` also with the right tag,
features and function words (relation, tag and features of each, in order).

Words are also counted in groups: by their relation, by the length of the sentence, and by the distance of the word
from its head. Of the words whose gold arc is in a group, ``uas`` and ``las`` are the shares with the right head, and
with the right relation, too; of those whose predicted arc is in it, ``precision`` is the share with the right arc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probtrans_cli.statistics.uncertainty import interval, moments

FUNCTION = frozenset({"aux", "cop", "mark", "det", "clf", "case", "cc"})
CONTENT = frozenset(
    {
        *("nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "vocative", "expl", "dislocated", "advcl"),
        *("advmod", "discourse", "nmod", "appos", "nummod", "acl", "amod", "conj", "fixed", "flat", "compound"),
        *("list", "parataxis", "orphan", "goeswith", "reparandum", "root", "dep"),
    }
)
UNIVERSAL_FEATURES = frozenset(
    {
        *("PronType", "NumType", "Poss", "Reflex", "Foreign", "Abbr", "Gender", "Animacy", "Number", "Case"),
        *("Definite", "Degree", "VerbForm", "Mood", "Tense", "Aspect", "Voice", "Evident", "Polarity", "Person"),
        "Polite",
    }
)
NEEDED: Mapping[str, set[str]] = {
    "las": {"relation"}, "uas": set(), "clas": {"relation"}, "mlas": {"relation", "upos", "feats"},
    "upos": {"upos"}, "xpos": {"xpos"}, "ufeats": {"feats"},
}  # fmt: skip
"""The scores, each with the annotation that it needs beside heads."""
GROUPS = ("relation", "length", "distance")
LENGTHS = {"1-10": 1, "11-20": 11, "21-30": 21, "31-40": 31, "41+": 41}
"""Groups of sentences, each with the fewest words of its sentences."""
DISTANCES = {"root": 0, "1": 1, "2": 2, "3-5": 3, "6-9": 6, "10+": 10}
"""Groups of arcs, each with its shortest distance."""


class Row(NamedTuple):
    """The annotation of a word; ``head`` 0 = the root."""

    head: int
    relation: str
    upos: str
    xpos: str
    feats: str


def parse_counts(pairs: Iterable[tuple[Sequence[Row], Sequence[Row]]]) -> Counter[Any]:
    """Count what is right in sentences, each a pair of gold and predicted words.

    The counts are those of the functions below, and of confusions of relations, by ``("confusion", gold, predicted)``.
    They add up over calls.
    """
    counts: Counter[Any] = Counter()
    right: dict[str, list[int]] = {name: [] for name in NEEDED}
    totals: dict[str, list[int]] = {name: [] for name in NEEDED}
    for gold, predicted in pairs:
        (gold_words, of_gold_words), (words, of_words) = _reduced(gold), _reduced(predicted)
        if len(gold_words) != len(words):
            raise ValueError(f"{len(words)} words for {len(gold_words)}")
        of_sentence = dict.fromkeys(NEEDED, 0)
        length = _group(LENGTHS, len(words))
        pairs_of_words = zip(gold_words, words, of_gold_words, of_words, strict=True)
        for number, (row, ours, theirs, own) in enumerate(pairs_of_words, start=1):
            arc, content = row[:2] == ours[:2], row.relation in CONTENT
            of_sentence["uas"] += row.head == ours.head
            of_sentence["las"] += arc
            of_sentence["clas"] += 2 * (arc and content)
            whole = arc and content and (row.upos, row.feats) == (ours.upos, ours.feats) and theirs == own
            of_sentence["mlas"] += 2 * whole
            of_sentence["upos"] += row.upos == ours.upos
            of_sentence["xpos"] += row.xpos == ours.xpos
            of_sentence["ufeats"] += row.feats == ours.feats
            counts["confusion", row.relation, ours.relation] += 1
            distances = [_group(DISTANCES, abs(each.head - number) if each.head else 0) for each in (row, ours)]
            groups = (row.relation, ours.relation), (length, length), distances
            for kind, (of_gold, of_ours) in zip(GROUPS, groups, strict=True):
                counts[kind, of_gold, "words"] += 1
                counts[kind, of_gold, "uas"] += row.head == ours.head
                counts[kind, of_gold, "las"] += arc
                counts[kind, of_ours, "predicted"] += 1
        content_words = sum(row.relation in CONTENT for row in (*gold_words, *words))
        for name in NEEDED:
            right[name].append(of_sentence[name])
            totals[name].append(content_words if name in ("clas", "mlas") else len(words))
    for name in NEEDED:
        counts.update(moments(name, np.array(right[name], dtype=np.int64), np.array(totals[name], dtype=np.int64)))
    return counts


def parse_scores(counts: Mapping[Any, float], names: Iterable[str] = tuple(NEEDED)) -> dict[str, float | None]:
    """Return scores of summed counts; None where there is nothing to count."""
    return {name: counts[name, "p"] / counts[name, "w"] if counts[name, "w"] else None for name in names}


def parse_details(counts: Mapping[Any, float], names: Iterable[str] = tuple(NEEDED)) -> dict[str, Any]:
    """Return the intervals of scores, and ``groups``: by :data:`GROUPS`, the words and shares of each group."""
    details: dict[str, Any] = {f"{name}_interval": interval(name, counts) for name in names}
    order = [*LENGTHS, *DISTANCES]
    groups: dict[str, Any] = {}
    for kind in GROUPS:
        sizes = {key[1]: counts[*key[:2], "words"] for key in counts if key[0] == kind}
        ranks = {name: (order.index(name) if kind != "relation" else -size, name) for name, size in sizes.items()}
        groups[kind] = {}
        for name in sorted(sizes, key=ranks.__getitem__):
            words, predicted, head, arc = (counts[kind, name, key] for key in ("words", "predicted", "uas", "las"))
            groups[kind][name] = {
                "words": int(words),
                "predicted": int(predicted),
                "uas": head / words if words else None,
                "las": arc / words if words else None,
                "precision": arc / predicted if predicted else None,
            }
    return details | {"groups": groups}


def _group(groups: Mapping[str, int], number: int) -> str:
    return next(name for name, least in reversed(list(groups.items())) if number >= least)


def _reduced(rows: Sequence[Row]) -> tuple[list[Row], list[list[tuple[int, str, str, str]]]]:
    # Words with universal relations and features alone, and the function words of each.
    reduced = []
    function_words: list[list[tuple[int, str, str, str]]] = [[] for _ in range(len(rows) + 1)]
    for number, row in enumerate(rows, start=1):
        relation = row.relation.partition(":")[0]  # without its subtype
        universals = sorted(pair for pair in row.feats.split("|") if pair.partition("=")[0] in UNIVERSAL_FEATURES)
        feats = "|".join(universals)
        reduced.append(row._replace(relation=relation, feats=feats))
        if row.head and relation in FUNCTION:
            function_words[row.head].append((number, relation, row.upos, feats))
    return reduced, function_words[1:]
