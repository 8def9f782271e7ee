"""Coordinations of dependency trees: what is a conjunct, what is shared, what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from itertools import islice
from typing import Any

import pytest
from coordinations_by_positions import coordinations_by_positions
from hypothesis import given, settings
from hypothesis import strategies as st
from support import real_data

from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.openie.coordination_trees import SHARED, coordinations_of_tree
from probtrans_cli.openie.coordinations import coordinations_to_rows, rows_to_coordinations


@pytest.mark.parametrize(
    ("tree", "expected", "counts"),
    [
        # The comma at "and" separates nothing.
        (
            "He 2 nsubj/likes 0 root/red 4 amod/wine 2 obj/, 6 punct/beer 4 conj/, 9 punct/and 9 cc/water 4 conj/"
            "with 11 case/ice 9 nmod/. 2 punct",
            ["red wine | beer | water with ice (and) ,"],
            {"found": 1},
        ),
        # A subject and an object may be shared, an auxiliary with the subject only.
        ("Bell 2 nsubj/makes 0 root/and 4 cc/sells 2 conj/goods 2 obj/. 2 punct", ["makes | sells (and)"], None),
        ("Bell 2 nsubj/makes 0 root/and 5 cc/it 5 nsubj/sells 2 conj/. 2 punct", ["Bell makes | it sells (and)"], None),
        ("They 3 nsubj/will 3 aux/go 0 root/and 5 cc/see 3 conj", ["go | see (and)"], None),
        ("They 3 nsubj/will 3 aux/go 0 root/and 6 cc/we 6 nsubj/see 3 conj", ["They will go | we see (and)"], None),
        # Paired coordinators, and those of several words.
        ("both 2 cc:preconj/wine 0 root/and 4 cc/beer 2 conj", ["wine | beer (and)"], None),
        ("both 2 cc:preconj/wine 0 root/as 5 cc/well 3 fixed/beer 2 conj", ["wine | beer (as)"], None),
        # A coordination in a conjunct comes behind it.
        (
            "It 2 nsubj/rains 0 root/and 5 cc/Ann 5 nsubj/sells 2 conj/wine 5 obj/or 8 cc/beer 6 conj",
            ["It rains | Ann sells wine or beer (and)", "wine | beer (or)"],
            {"found": 2},
        ),
        # What has no coordinator or no neighbouring words is left out; a second root is no part of an expression.
        ("wine 0 root/, 3 punct/beer 1 conj", [], {"no coordinator": 1}),
        ("wine 0 root/and 3 cc/beer 1 conj/is 0 root/here 3 advmod", [], {"not contiguous": 1}),
        ("wine 0 root/as 0 fixed/beer 1 conj/well 0 fixed", [], {"not contiguous": 1}),
    ],
)
def test_what_is_coordinated(tree: str, expected: list[str], counts: dict[str, int] | None) -> None:
    """Of every coordination the conjuncts, the coordinator and separators; a tree has words, heads and relations."""
    words, heads, relations = zip(*(row.split() for row in tree.split("/")), strict=True)
    coordinations, counted = coordinations_of_tree(list(map(int, heads)), relations)
    shown = [
        " | ".join(" ".join(words[start:end]) for start, end in each.conjuncts)
        + f" ({words[each.cc]})"
        + "".join(f" {words[i]}" for i in each.separators)
        for each in coordinations
    ]
    assert shown == expected
    assert counts in (None, counted)


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        coordinations_of_tree([2, 1], ["conj", "conj"])


RELATIONS = ["conj"] * 3 + [*SHARED, "aux:pass", "cc", "cc:preconj", "punct", "fixed", "flat", "obj"]


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[int], list[str], list[str] | None]:
    """Heads without a cycle, relations, and parts of speech or none: trees whose subtrees often have gaps."""
    count = draw(st.integers(1, 14))
    order = draw(st.permutations(range(1, count + 1)))
    heads = [0] * count
    for i, word in enumerate(order[1:], start=1):
        heads[word - 1] = draw(st.sampled_from([*order[:i], *order[max(i - 2, 0) : i], 0]))
    relations = draw(st.lists(st.sampled_from(RELATIONS), min_size=count, max_size=count))
    upos = draw(st.none() | st.lists(st.sampled_from(["NOUN", "PUNCT"]), min_size=count, max_size=count))
    return heads, relations, upos


def both(heads: Sequence[int], relations: Sequence[str], upos: Sequence[str] | None) -> list[Any]:
    """What the package finds in a tree and what the form by positions does, with all that is counted."""
    results = [find(heads, relations, upos) for find in (coordinations_of_tree, coordinations_by_positions)]
    return [([astuple(each) for each in coordinations], counts) for coordinations, counts in results]


@settings(max_examples=300, deadline=None)
@given(sentences())
def test_random_trees_give_the_same_by_positions(sentence: tuple[list[int], list[str], list[str] | None]) -> None:
    ours, theirs = both(*sentence)
    assert ours == theirs


@pytest.mark.parametrize("treebank", ["en_ewt", "hu_szeged", "wo_wtb"])
def test_treebanks_give_the_same_by_positions_and_come_back_from_rows(treebank: str) -> None:
    path = real_data(f"ud/{treebank}/train.conllu")
    counts: Counter[str] = Counter()
    for sentence in islice(read_conllu(open_lines(path), treebank), 1000):
        assert sentence.heads is not None
        assert sentence.relations is not None
        tree = sentence.heads, sentence.relations, sentence.tags.get("upos")
        ours, theirs = both(*tree)
        assert ours == theirs, sentence.where
        coordinations, of_tree = coordinations_of_tree(*tree)
        grid, of_rows = coordinations_to_rows(coordinations, len(sentence.words), rows=3)
        back = rows_to_coordinations(grid)
        assert set(back.values()) <= set(coordinations)
        assert len(back) == of_rows["kept"]
        counts += of_tree + of_rows
    assert counts["found"] > 300
    assert counts["kept"] > 0.98 * counts["found"]


@pytest.mark.parametrize("relation", ["conj", "fixed"])
@pytest.mark.parametrize("step", [1, -1], ids=["to the right", "to the left"])
def test_a_tree_of_thousands_of_levels(relation: str, step: int) -> None:
    count = 5000
    heads = [*range(count)] if step > 0 else [*range(2, count + 1), 0]
    assert coordinations_of_tree(heads, [relation] * count)[0] == []
