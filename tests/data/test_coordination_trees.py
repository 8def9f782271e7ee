"""Coordinations of dependency trees: what is a conjunct, what is shared, what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from itertools import islice
from pathlib import Path
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


def read(tree: str) -> tuple[list[str], Counter[str]]:
    """Of every coordination the conjuncts and the coordinator; a tree is a word a line, its head and its relation."""
    rows = [line.split() for line in tree.strip().splitlines()]
    words = [row[0] for row in rows]
    found, counts = coordinations_of_tree([int(row[1]) for row in rows], [row[2] for row in rows])
    shown = [
        " | ".join(" ".join(words[start:end]) for start, end in one.conjuncts)
        + f" ({words[one.cc]})"
        + "".join(f" {words[i]}" for i in one.separators)
        for one in found
    ]
    return shown, counts


def test_three_conjuncts_with_their_subtrees() -> None:
    found, counts = read("""
        He 2 nsubj
        likes 0 root
        red 4 amod
        wine 2 obj
        , 6 punct
        beer 4 conj
        , 9 punct
        and 9 cc
        water 4 conj
        with 11 case
        ice 9 nmod
        . 2 punct
    """)
    assert found == ["red wine | beer | water with ice (and) ,"]  # the comma at "and" separates nothing
    assert counts == {"found": 1}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("Bell 2 nsubj\nmakes 0 root\nand 4 cc\nsells 2 conj\ngoods 2 obj\n. 2 punct", "makes | sells (and)"),
        ("Bell 2 nsubj\nmakes 0 root\nand 5 cc\nit 5 nsubj\nsells 2 conj\n. 2 punct", "Bell makes | it sells (and)"),
    ],
    ids=["shared", "a subject of its own"],
)
def test_a_subject_and_an_object_may_be_shared(tree: str, expected: str) -> None:
    assert read(tree)[0] == [expected]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("They 3 nsubj\nwill 3 aux\ngo 0 root\nand 5 cc\nsee 3 conj", "go | see (and)"),
        ("They 3 nsubj\nwill 3 aux\ngo 0 root\nand 6 cc\nwe 6 nsubj\nsee 3 conj", "They will go | we see (and)"),
    ],
    ids=["shared", "a subject of its own"],
)
def test_an_auxiliary_is_shared_with_the_subject_only(tree: str, expected: str) -> None:
    assert read(tree)[0] == [expected]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("both 2 cc:preconj\nwine 0 root\nand 4 cc\nbeer 2 conj", "wine | beer (and)"),
        ("both 2 cc:preconj\nwine 0 root\nas 5 cc\nwell 3 fixed\nbeer 2 conj", "wine | beer (as)"),
    ],
)
def test_paired_coordinators_and_those_of_several_words(tree: str, expected: str) -> None:
    assert read(tree)[0] == [expected]


def test_a_coordination_in_a_conjunct_comes_behind_it() -> None:
    found, counts = read("""
        It 2 nsubj
        rains 0 root
        and 5 cc
        Ann 5 nsubj
        sells 2 conj
        wine 5 obj
        or 8 cc
        beer 6 conj
    """)
    assert found == ["It rains | Ann sells wine or beer (and)", "wine | beer (or)"]
    assert counts == {"found": 2}


def test_what_has_no_coordinator_or_no_neighbouring_words_is_left_out() -> None:
    assert read("wine 0 root\n, 3 punct\nbeer 1 conj") == ([], {"no coordinator": 1})
    assert read("wine 0 root\nand 3 cc\nbeer 1 conj\nis 0 root\nhere 3 advmod") == ([], {"not contiguous": 1})


def test_a_second_root_that_is_part_of_an_expression_joins_nothing() -> None:
    tree = "wine 0 root\nas 0 fixed\nbeer 1 conj\nwell 0 fixed"
    assert read(tree) == ([], {"not contiguous": 1})


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
    """What the package finds in a tree and what the form by positions does, with everything that is said of it."""
    found = [way(heads, relations, upos) for way in (coordinations_of_tree, coordinations_by_positions)]
    return [([astuple(one) for one in coordinations], counts) for coordinations, counts in found]


@settings(max_examples=300, deadline=None)
@given(sentences())
def test_what_is_found_is_the_same_by_positions(sentence: tuple[list[int], list[str], list[str] | None]) -> None:
    ours, theirs = both(*sentence)
    assert ours == theirs


TREEBANKS = ["af_afribooms", "el_gdt", "en_ewt", "fr_sequoia", "hu_szeged", "mt_mudt", "tr_imst", "ug_udt", "wo_wtb"]


@pytest.mark.parametrize("treebank", TREEBANKS)
def test_what_is_found_in_a_treebank_is_the_same_by_positions(treebank: str) -> None:
    path = real_data(f"ud/{treebank}/train.conllu")
    for sentence in islice(read_conllu(open_lines(path), treebank), 1000):
        assert sentence.heads is not None
        assert sentence.relations is not None
        ours, theirs = both(sentence.heads, sentence.relations, sentence.tags.get("upos"))
        assert ours == theirs, sentence.where


@pytest.mark.parametrize("relation", ["conj", "fixed"])
@pytest.mark.parametrize("step", [1, -1], ids=["to the right", "to the left"])
def test_a_tree_of_thousands_of_levels(relation: str, step: int) -> None:
    count = 5000
    heads = [*range(count)] if step > 0 else [*range(2, count + 1), 0]
    assert coordinations_of_tree(heads, [relation] * count)[0] == []


def test_coordinations_of_a_treebank_come_back_from_rows(corpora: Path) -> None:
    name = str(corpora / "ud" / "en_ewt" / "dev.conllu")
    counts: Counter[str] = Counter()
    for sentence in read_conllu(open_lines(name), name):
        assert sentence.heads is not None
        assert sentence.relations is not None
        found, of_tree = coordinations_of_tree(sentence.heads, sentence.relations, sentence.tags.get("upos"))
        grid, of_rows = coordinations_to_rows(found, len(sentence.words), rows=3)
        back = rows_to_coordinations(grid)
        assert set(back.values()) <= set(found)
        assert len(back) == of_rows["kept"]
        counts += of_tree + of_rows
    assert counts["found"] > 700
    assert counts["kept"] > 0.98 * counts["found"]
