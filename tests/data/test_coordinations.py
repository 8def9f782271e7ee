"""Rows of labels, coordinations and simple sentences: worked examples, and a second implementation on random grids."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.tokens import words_of
from probtrans_cli.openie.coordinations import (
    TAGS,
    UNBREAKABLE,
    Coordination,
    coordinations_to_rows,
    coordinations_to_sentences,
    rows_to_coordinations,
    splitting,
    tree,
)

BELL = words_of("Bell , based in Los Angeles , makes and distributes electronic , computer and building products .")
AGENCY = words_of(
    "The agency has already spent roughly $ 19 billion selling 34 insolvent S&Ls , and it is likely to sell or merge "
    "600 by the time the bailout concludes ."
)


def row_of(length: int, *parts: tuple[str, int, int]) -> list[int]:
    """A row of labels: of each part the tag, the first word and the last one."""
    row = [0] * length
    for tag, first, last in parts:
        row[first : last + 1] = [TAGS[tag]] * (last + 1 - first)
    return row


def sentences(words: list[str], rows: list[list[int]], **options: object) -> list[str]:
    kept = splitting(words, rows_to_coordinations(rows), **options)  # type: ignore[arg-type]
    return [" ".join(words[i] for i in one) for one in coordinations_to_sentences(words, kept)]


def test_two_coordinations_of_one_row() -> None:
    row = row_of(
        len(BELL),
        ("CP_START", 7, 7),
        ("CC", 8, 8),
        ("CP", 9, 9),
        ("CP_START", 10, 10),
        ("SEP", 11, 11),
        ("CP", 12, 12),
        ("CC", 13, 13),
        ("CP", 14, 14),
    )
    found = rows_to_coordinations([row])
    assert found == {8: Coordination(8, ((7, 8), (9, 10))), 13: Coordination(13, ((10, 11), (12, 13), (14, 15)))}
    assert found[13].separators == (11,)
    assert sentences(BELL, [row]) == [
        f"Bell , based in Los Angeles , {verb} {kind} products ."
        for verb in ("makes", "distributes")
        for kind in ("electronic", "computer", "building")
    ]


def test_a_coordination_inside_of_another() -> None:
    outer = row_of(len(AGENCY), ("CP_START", 0, 0), ("CP", 1, 12), ("OTHERS", 13, 13), ("CC", 14, 14), ("CP", 15, 28))
    inner = row_of(len(AGENCY), ("CP_START", 19, 19), ("CC", 20, 20), ("CP", 21, 21))
    found = rows_to_coordinations([outer, inner, [0] * len(AGENCY)])
    assert found == {14: Coordination(14, ((0, 13), (15, 29))), 20: Coordination(20, ((19, 20), (21, 22)))}
    assert [one.level for one in found.values() if one] == [0, 1]
    assert tree([one for one in found.values() if one]) == [None, 0]
    rest = "600 by the time the bailout concludes ."
    assert sentences(AGENCY, [outer, inner]) == [
        "The agency has already spent roughly $ 19 billion selling 34 insolvent S&Ls .",
        f"it is likely to sell {rest}",
        f"it is likely to merge {rest}",
    ]


def test_unbreakable_words_keep_a_coordination_whole() -> None:
    words = words_of("Talks resumed between USA and China .")
    row = row_of(7, ("CP_START", 3, 3), ("CC", 4, 4), ("CP", 5, 5))
    assert rows_to_coordinations([row]) == {4: Coordination(4, ((3, 4), (5, 6)))}
    assert sentences(words, [row]) == []
    assert len(sentences(words, [row], unbreakable=UNBREAKABLE - {"between"})) == 2
    words[2:3] = ["Between", "far-away"]
    row.insert(0, 0)
    assert sentences(words, [row]) == []
    assert len(sentences(words, [row], unbreakable_window=1)) == 2
    assert sentences(words, [row], unbreakable_window=2) == []


def test_only_words_behind_the_coordination_before_are_looked_at() -> None:
    words = words_of("between A and B he saw C and D .")
    row = row_of(10, ("CP_START", 1, 1), ("CC", 2, 2), ("CP", 3, 3), ("CP_START", 6, 6), ("CC", 7, 7), ("CP", 8, 8))
    assert sentences(words, [row]) == ["between A and B he saw C .", "between A and B he saw D ."]


@pytest.mark.parametrize("cc", ["nor", "&"])
def test_some_coordinators_are_not_split(cc: str) -> None:
    assert sentences(["A", cc, "B", "."], [[2, 3, 1, 0]]) == []
    assert sentences(["A", "or", "B", "."], [[2, 3, 1, 0]]) == ["A .", "B ."]


def test_a_sentence_without_a_final_period() -> None:
    words = words_of("I ate an apple and orange")
    row = [0, 0, 0, 2, 3, 1]
    assert sentences(words, [row]) == ["I ate an apple", "I ate an orange"]
    assert rows_to_coordinations([row], close_at_end=False) == {}


def test_a_coordinator_without_conjuncts_takes_the_place_of_a_coordination() -> None:
    assert rows_to_coordinations([[2, 3, 1, 0], [0, 3, 0, 0]]) == {1: None}
    assert sentences(["A", "and", "B", "."], [[2, 3, 1, 0], [0, 3, 0, 0]]) == []


def test_a_coordination_that_makes_too_many_sentences_stays_whole() -> None:
    row, words = [2, 3, 1] * 40, ["A", "or", "B"] * 40
    found = splitting(words, rows_to_coordinations([row]))
    assert len(found) == 40
    parts = coordinations_to_sentences(words, found, most=10)
    assert len(parts) == 8
    assert [words[i] for i in parts[0]] == ["A"] * 3 + ["A", "or", "B"] * 37
    assert len(coordinations_to_sentences(words, found)) == 512


# --- a second implementation, of the description alone: strings for rows, sets for sentences --------------------------


def second_reading(rows: list[list[int]]) -> dict[int, tuple[list[list[int]], int] | None]:
    """The conjuncts, each a list of words, and the level of every coordinator, in the order of the stores."""
    events: list[tuple[int, int, int, tuple[list[list[int]], int] | None]] = []
    for level, row in enumerate(rows):
        text = "".join(map(str, row))
        begins = [match.start() for match in re.finditer("2", text)]
        before = begins[0] if begins else len(text)
        events += [(level, match.start(), match.start(), None) for match in re.finditer("3", text[:before])]
        for begin, end in zip(begins, [*begins[1:], len(text)], strict=False):
            phrase = text[begin:end]
            conjuncts = [range(begin + one.start(), begin + one.end()) for one in re.finditer("21*|1+", phrase)]
            ccs = [begin + one.start() for one in re.finditer("3", phrase)]
            closed = None
            for at in [*(begin + one.start() for one in re.finditer("0", phrase)), end]:
                there = [list(one) for one in conjuncts if one[-1] < at]
                last = [cc for cc in ccs if cc < at][-1:]
                if last and len(there) > 1 and there[0][-1] < last[0] < there[-1][0]:
                    events.append((level, at, last[0], (there, level)))
                    closed = at
                    break
            events += [(level, cc, cc, None) for cc in ccs if closed is not None and cc >= closed]
    found: dict[int, tuple[list[list[int]], int] | None] = {}
    for _, _, cc, value in sorted(events, key=lambda event: event[:2]):
        found[cc] = value
    return found


def second_splitting(words: list[str], found: dict[int, tuple[list[list[int]], int] | None]) -> list[list[int]]:
    there = {cc: one[0] for cc, one in found.items() if one and words[cc] != "nor" and words[cc] != "&"}
    kept, free_from = {}, 0
    for cc, conjuncts in there.items():
        if not {word.lower() for word in words[free_from : conjuncts[0][0]]} & UNBREAKABLE:
            kept[cc] = conjuncts
        free_from = conjuncts[-1][-1] + 1
    extent = {cc: {*range(conjuncts[0][0], conjuncts[-1][-1] + 1)} for cc, conjuncts in kept.items()}
    ancestors = {
        cc: [other for other in kept if any(extent[cc] <= set(conjunct) for conjunct in kept[other])] for cc in kept
    }
    below = Counter(other for of in ancestors.values() for other in of)
    parent = {cc: min(of, key=lambda other: below[other], default=None) for cc, of in ancestors.items()}

    result: list[set[int]] = []
    level = [cc for cc in kept if parent[cc] is None]
    while level:
        for cc in level:
            first = kept[cc][0][0]
            hit = [one for one in result if first in one] if result else [set(range(len(words)))]
            result = [one for one in result if first not in one]
            result += [one - (extent[cc] - set(conjunct)) for one in hit for conjunct in kept[cc]]
        level = [child for cc in level for child in kept if parent[child] == cc]
    return sorted(sorted(one) for one in result)


def test_two_implementations_agree_on_random_grids() -> None:
    draw = random.Random(7)
    split = nested = whole = 0
    vocabulary = ["a", "b", "and", "or", "nor", "&", "Between", "sum", ",", "."]
    often = [8, 1, 1, 1, 3, 3, 1, 1, 2, 2]
    for number in range(3000):
        length = draw.randint(1, 14)
        weights = draw.choice([[3, 4, 2, 2, 1, 1], [1, 1, 1, 1, 1, 1], [1, 6, 1, 2, 1, 0]])
        rows = [draw.choices(range(6), weights, k=length) for _ in range(draw.randint(1, 3))]
        if number % 2 and length > 6:  # two levels, as they are meant
            rows = [[2, 1, 1, 1, 1, 3, *[1] * (length - 6)], [0, 2, 3, 1, 0, *draw.choices(range(6), k=length - 5)]]
        words = draw.choices(vocabulary, often, k=length)
        found, other = rows_to_coordinations(rows), second_reading(rows)
        assert list(found) == list(other)
        for cc, one in found.items():
            mine = one and ([list(range(*conjunct)) for conjunct in one.conjuncts], one.level)
            assert mine == other[cc], (rows, cc)
        kept = splitting(words, found)
        mine = coordinations_to_sentences(words, kept, most=10**6)
        assert sorted(map(list, mine)) == second_splitting(words, other), (words, rows)
        split, nested = split + bool(mine), nested + any(parent is not None for parent in tree(kept))
        whole += len(kept) < sum(one is not None for one in found.values())
    assert split > 800  # what is compared occurs
    assert nested > 300
    assert whole > 300


# --- back to rows -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), max_size=3)))
def test_coordinations_of_any_grid_come_back_from_rows(rows: list[list[int]]) -> None:
    found = [one for one in rows_to_coordinations(rows).values() if one is not None]
    length = len(rows[0]) if rows else 0
    grid, counts = coordinations_to_rows(found, length)
    back = rows_to_coordinations(grid)
    assert counts["not readable"] + counts["kept"] == len(found)
    assert set(back.values()) <= set(found)
    assert len(back) == counts["kept"]
    for one in found:
        if counts["not readable"] == 0:
            assert back[one.cc] == one
            assert set(back[one.cc].separators) == set(one.separators)  # type: ignore[union-attr]


def test_levels_of_nesting_are_rows() -> None:
    inner, middle, outer = (Coordination(cc, ((0, cc), (cc + 1, cc + 2))) for cc in (1, 3, 5))
    beside = Coordination(8, ((7, 8), (9, 10)))
    assert tree([inner, beside, outer, middle]) == [3, None, None, 2]
    grid, counts = coordinations_to_rows([inner, beside, outer, middle], 10)
    assert grid == [
        [2, 1, 1, 1, 1, 3, 1, 2, 3, 1],
        [2, 1, 1, 3, 1, 0, 0, 0, 0, 0],
        [2, 3, 1, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert counts == {"kept": 4}
    grid, counts = coordinations_to_rows([inner, beside, outer, middle], 10, rows=2)
    assert len(grid) == 2
    assert counts == {"kept": 3, "too deep": 1}
    assert coordinations_to_rows([], 2, rows=2) == ([[0, 0], [0, 0]], {})


def test_what_cannot_be_read_again_is_left_out() -> None:
    touching = Coordination(2, ((0, 1), (1, 2), (3, 4)))
    inside = Coordination(1, ((0, 3), (4, 5)))
    twice = [Coordination(2, ((0, 2), (3, 4))), Coordination(2, ((1, 2), (3, 4)))]
    assert coordinations_to_rows([touching, inside], 5)[1] == {"not readable": 2}
    assert coordinations_to_rows(twice, 5)[1] == {"kept": 1, "repeated": 1}
    with pytest.raises(ValueError, match="not in a sentence of 3 words"):
        coordinations_to_rows(twice, 3)
