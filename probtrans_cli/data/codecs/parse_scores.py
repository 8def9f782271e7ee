"""Scores of parses as the script of the CoNLL 2018 shared task counts them, where words are those of the gold file.

Over all words, punctuation included: ``uas``, the right head; ``las``, also the right relation; ``upos``, ``xpos``;
``ufeats``, the universal features. Relations count without subtypes (`nsubj:pass` is `nsubj`). ``clas`` and ``mlas``
are F1 over words with a relation of content: those with the right arc, and for ``mlas`` also with the right tag,
features and function words (relation, tag and features of each, in order).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
SCORES = ("uas", "las", "clas", "mlas", "upos", "xpos", "ufeats")
OF_WORDS = ("uas", "las", "upos", "xpos", "ufeats")


class Row(NamedTuple):
    """The annotation of a word; ``head`` 0 = the root."""

    head: int
    relation: str
    upos: str
    xpos: str
    feats: str


def universal(relation: str) -> str:
    """Return a relation without its subtype."""
    return relation.partition(":")[0]


def universal_features(feats: str) -> str:
    """Return the universal features of FEATS, sorted."""
    return "|".join(sorted(one for one in feats.split("|") if one.partition("=")[0] in UNIVERSAL_FEATURES))


def parsed_rows(form: str) -> list[Row]:
    """Return the words of a gold annotation: HEAD, DEPREL, UPOS, XPOS and FEATS of a word a line, with tabs between."""
    rows = (line.split("\t") for line in form.split("\n") if line)
    return [Row(int(head), *rest) for head, *rest in rows]


def parse_counts(gold: Sequence[Row], predicted: Sequence[Row]) -> dict[str, int]:
    """Count the words of a sentence, and which are right, by the names of :data:`SCORES`; ``content`` and
    ``predicted content``: words with a relation of content.

    Raises:
        ValueError: the two have different numbers of words.
    """
    gold_words, words = _reduced(gold), _reduced(predicted)
    if len(gold_words) != len(words):
        raise ValueError(f"{len(words)} words for {len(gold_words)}")
    counts = {"words": len(words), "content": sum(row.relation in CONTENT for row in gold_words)}
    counts["predicted content"] = sum(row.relation in CONTENT for row in words)
    counts |= dict.fromkeys(SCORES, 0)
    of_gold, of_words = _function_words(gold_words), _function_words(words)
    for row, ours, function_words, our_function_words in zip(gold_words, words, of_gold, of_words, strict=True):
        arc = row[:2] == ours[:2]
        content = row.relation in CONTENT
        counts["uas"] += row.head == ours.head
        counts["las"] += arc
        counts["clas"] += arc and content
        whole = arc and content and (row.upos, row.feats) == (ours.upos, ours.feats)
        counts["mlas"] += whole and function_words == our_function_words
        counts["upos"] += row.upos == ours.upos
        counts["xpos"] += row.xpos == ours.xpos
        counts["ufeats"] += row.feats == ours.feats
    return counts


def parse_shares(counts: Mapping[str, float]) -> dict[str, float | None]:
    """Return the scores of summed counts; None where there is nothing to count."""
    shares: dict[str, float | None] = {}
    for name in SCORES:
        number = counts["words"] if name in OF_WORDS else (counts["content"] + counts["predicted content"]) / 2
        shares[name] = counts[name] / number if number else None
    return shares


def _reduced(rows: Sequence[Row]) -> list[Row]:
    return [row._replace(relation=universal(row.relation), feats=universal_features(row.feats)) for row in rows]


def _function_words(rows: Sequence[Row]) -> list[list[tuple[int, str, str, str]]]:
    function_words: list[list[tuple[int, str, str, str]]] = [[] for _ in range(len(rows) + 1)]
    for number, row in enumerate(rows, start=1):
        if row.head and row.relation in FUNCTION:
            function_words[row.head].append((number, row.relation, row.upos, row.feats))
    return function_words[1:]
