"""Coordinations of dependency trees: what is a conjunct, what is shared, what is left out."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from support import real_data

from probtrans_cli.data.files import open_lines
from probtrans_cli.data.readers.conllu import read_conllu
from probtrans_cli.openie.coordination_files import coordinations_of_tree
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


@pytest.mark.parametrize(
    ("treebank", "counts"),
    [
        ("en_ewt", {"found": 578, "words": 6609, "not contiguous": 7, "separators": 96, "no coordinator": 12}),
        ("hu_szeged", {"found": 507, "words": 6660, "not contiguous": 20, "separators": 139, "no coordinator": 221}),
        ("wo_wtb", {"found": 381, "words": 3527, "not contiguous": 10, "separators": 105, "no coordinator": 152}),
    ],
)
def test_coordinations_of_treebanks(treebank: str, counts: dict[str, int]) -> None:
    """The numbers are those of two implementations, by subtrees and by positions; rows give nearly all back."""
    path = real_data(f"ud/{treebank}/train.conllu")
    counted: Counter[str] = Counter()
    kept = 0
    for sentence in islice(read_conllu(open_lines(path), treebank), 1000):
        assert sentence.heads is not None
        assert sentence.relations is not None
        coordinations, of_tree = coordinations_of_tree(sentence.heads, sentence.relations, sentence.tags.get("upos"))
        counted += of_tree
        counted["words"] += sum(end - start for each in coordinations for start, end in each.conjuncts)
        counted["separators"] += sum(len(each.separators) for each in coordinations)
        grid, of_rows = coordinations_to_rows(coordinations, len(sentence.words), rows=3)
        back = rows_to_coordinations(grid)
        assert set(back.values()) <= set(coordinations)
        assert len(back) == of_rows["kept"]
        kept += len(back)
    assert counted == counts
    assert kept > 0.98 * counts["found"]


@pytest.mark.parametrize("relation", ["conj", "fixed"])
@pytest.mark.parametrize("step", [1, -1], ids=["to the right", "to the left"])
def test_a_tree_of_thousands_of_levels(relation: str, step: int) -> None:
    count = 5000
    heads = [*range(count)] if step > 0 else [*range(2, count + 1), 0]
    assert coordinations_of_tree(heads, [relation] * count)[0] == []
