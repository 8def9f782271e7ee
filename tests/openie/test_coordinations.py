"""Coordinations: rows of labels, simple sentences, files, and the criteria by which they are scored."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.corpus.prepared import Prepared, prepare
from probtrans_cli.data.readers import read_corpus
from probtrans_cli.data.sentence import Sentence
from probtrans_cli.data.tokens import words_of
from probtrans_cli.errors import DataError
from probtrans_cli.openie.coordination_files import read_coordinations
from probtrans_cli.openie.coordinations import (
    MOST_SENTENCES,
    TAGS,
    UNBREAKABLE,
    Coordination,
    coordinations_to_rows,
    coordinations_to_sentences,
    rows_to_coordinations,
    splitting,
    tree,
)
from probtrans_cli.openie.scores import coordination_counts, coordination_scores
from probtrans_cli.recipe.data import Data
from probtrans_cli.recipe.schema import Recipe

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
    return [" ".join(words[i] for i in places) for places in coordinations_to_sentences(words, kept)]


# --- worked examples --------------------------------------------------------------------------------------------------


def test_two_coordinations_of_one_row() -> None:
    verbs = [("CP_START", 7, 7), ("CC", 8, 8), ("CP", 9, 9)]
    kinds = [("CP_START", 10, 10), ("SEP", 11, 11), ("CP", 12, 12), ("CC", 13, 13), ("CP", 14, 14)]
    row = row_of(len(BELL), *verbs, *kinds)
    read = rows_to_coordinations([row])
    assert read == {8: Coordination(8, ((7, 8), (9, 10))), 13: Coordination(13, ((10, 11), (12, 13), (14, 15)))}
    assert read[13].separators == (11,)
    assert sentences(BELL, [row]) == [
        f"Bell , based in Los Angeles , {verb} {kind} products ."
        for verb in ("makes", "distributes")
        for kind in ("electronic", "computer", "building")
    ]


def test_a_coordination_inside_of_another() -> None:
    outer = row_of(len(AGENCY), ("CP_START", 0, 0), ("CP", 1, 12), ("OTHERS", 13, 13), ("CC", 14, 14), ("CP", 15, 28))
    inner = row_of(len(AGENCY), ("CP_START", 19, 19), ("CC", 20, 20), ("CP", 21, 21))
    coordinations = rows_to_coordinations([outer, inner, [0] * len(AGENCY)])
    assert coordinations == {14: Coordination(14, ((0, 13), (15, 29))), 20: Coordination(20, ((19, 20), (21, 22)))}
    assert [each.level for each in coordinations.values() if each] == [0, 1]
    assert tree([each for each in coordinations.values() if each]) == [None, 0]
    rest = "600 by the time the bailout concludes ."
    assert sentences(AGENCY, [outer, inner]) == [
        "The agency has already spent roughly $ 19 billion selling 34 insolvent S&Ls .",
        f"it is likely to sell {rest}",
        f"it is likely to merge {rest}",
    ]


def test_what_keeps_a_coordination_whole() -> None:
    words = ["Talks", "resumed", "between", "USA", "and", "China", "."]
    row = row_of(7, ("CP_START", 3, 3), ("CC", 4, 4), ("CP", 5, 5))
    assert sentences(words, [row]) == []
    assert len(sentences(words, [row], unbreakable=UNBREAKABLE - {"between"})) == 2
    words[2:3] = ["Between", "far-away"]
    row.insert(0, 0)
    assert sentences(words, [row]) == []
    assert len(sentences(words, [row], unbreakable_window=1)) == 2
    assert sentences(words, [row], unbreakable_window=2) == []
    # Only words behind the coordination before are looked at.
    words = ["between", "A", "and", "B", "he", "saw", "C", "and", "D", "."]
    row = row_of(10, ("CP_START", 1, 1), ("CC", 2, 2), ("CP", 3, 3), ("CP_START", 6, 6), ("CC", 7, 7), ("CP", 8, 8))
    assert sentences(words, [row]) == ["between A and B he saw C .", "between A and B he saw D ."]
    assert sentences(["A", "or", "B", "."], [[2, 3, 1, 0]]) == ["A .", "B ."]
    for cc in ("nor", "&"):
        assert sentences(["A", cc, "B", "."], [[2, 3, 1, 0]]) == []
    # A coordinator without conjuncts takes the place of a coordination.
    assert rows_to_coordinations([[2, 3, 1, 0], [0, 3, 0, 0]]) == {1: None}
    assert sentences(["A", "and", "B", "."], [[2, 3, 1, 0], [0, 3, 0, 0]]) == []


def test_a_sentence_without_a_final_period() -> None:
    row = [0, 0, 0, 2, 3, 1]
    assert sentences(["I", "ate", "an", "apple", "and", "orange"], [row]) == ["I ate an apple", "I ate an orange"]


def test_a_coordination_that_makes_too_many_sentences_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    row, words = [2, 3, 1] * 40, ["A", "or", "B"] * 40
    kept = splitting(words, rows_to_coordinations([row]))
    assert len(kept) == 40
    assert len(coordinations_to_sentences(words, kept)) == 512
    monkeypatch.setattr("probtrans_cli.openie.coordinations.MOST_SENTENCES", 10)
    parts = coordinations_to_sentences(words, kept)
    assert len(parts) == 8
    assert [words[i] for i in parts[0]] == ["A"] * 3 + ["A", "or", "B"] * 37


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
            conjuncts = [range(begin + match.start(), begin + match.end()) for match in re.finditer("21*|1+", phrase)]
            ccs = [begin + match.start() for match in re.finditer("3", phrase)]
            closed = None
            for at in [*(begin + match.start() for match in re.finditer("0", phrase)), end]:
                there = [list(conjunct) for conjunct in conjuncts if conjunct[-1] < at]
                last = [cc for cc in ccs if cc < at][-1:]
                if last and len(there) > 1 and there[0][-1] < last[0] < there[-1][0]:
                    events.append((level, at, last[0], (there, level)))
                    closed = at
                    break
            events += [(level, cc, cc, None) for cc in ccs if closed is not None and cc >= closed]
    coordinations: dict[int, tuple[list[list[int]], int] | None] = {}
    for _, _, cc, value in sorted(events, key=lambda event: event[:2]):
        coordinations[cc] = value
    return coordinations


def second_splitting(words: list[str], coordinations: dict[int, tuple[list[list[int]], int] | None]) -> list[list[int]]:
    there = {cc: value[0] for cc, value in coordinations.items() if value and words[cc] != "nor" and words[cc] != "&"}
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
            hit = [sentence for sentence in result if first in sentence] if result else [set(range(len(words)))]
            result = [sentence for sentence in result if first not in sentence]
            result += [sentence - (extent[cc] - set(conjunct)) for sentence in hit for conjunct in kept[cc]]
        level = [child for cc in level for child in kept if parent[child] == cc]
    return sorted(sorted(sentence) for sentence in result)


def test_two_implementations_agree_on_random_grids() -> None:
    draw = random.Random(7)
    split = nested = whole = 0
    vocabulary = ["a", "b", "and", "or", "nor", "&", "Between", "sum", ",", "."]
    often = [8, 1, 1, 1, 3, 3, 1, 1, 2, 2]
    for number in range(2000):
        length = draw.randint(1, 14)
        weights = draw.choice([[3, 4, 2, 2, 1, 1], [1, 1, 1, 1, 1, 1], [1, 6, 1, 2, 1, 0]])
        rows = [draw.choices(range(6), weights, k=length) for _ in range(draw.randint(1, 3))]
        if number % 2 and length > 6:  # two levels, as they are meant
            rows = [[2, 1, 1, 1, 1, 3, *[1] * (length - 6)], [0, 2, 3, 1, 0, *draw.choices(range(6), k=length - 5)]]
        words = draw.choices(vocabulary, often, k=length)
        coordinations, again = rows_to_coordinations(rows), second_reading(rows)
        assert list(coordinations) == list(again)
        for cc, coordination in coordinations.items():
            value = coordination and ([[*range(*span)] for span in coordination.conjuncts], coordination.level)
            assert value == again[cc], (rows, cc)
        kept = splitting(words, coordinations)
        mine = coordinations_to_sentences(words, kept)
        assert len(mine) < MOST_SENTENCES / 2, "all are split"
        assert sorted(map(list, mine)) == second_splitting(words, again), (words, rows)
        split, nested = split + bool(mine), nested + any(parent is not None for parent in tree(kept))
        whole += len(kept) < sum(coordination is not None for coordination in coordinations.values())
    assert split > 500  # what is compared occurs
    assert nested > 200
    assert whole > 200


# --- back to rows -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), max_size=3)))
def test_coordinations_of_any_grid_come_back_from_rows(rows: list[list[int]]) -> None:
    coordinations = [coordination for coordination in rows_to_coordinations(rows).values() if coordination is not None]
    length = len(rows[0]) if rows else 0
    grid, counts = coordinations_to_rows(coordinations, length)
    back = rows_to_coordinations(grid)
    assert counts["not readable"] + counts["kept"] == len(coordinations)
    assert set(back.values()) <= set(coordinations)
    assert len(back) == counts["kept"]
    for coordination in coordinations:
        if counts["not readable"] == 0:
            assert back[coordination.cc] == coordination
            assert set(back[coordination.cc].separators) == set(coordination.separators)  # type: ignore[union-attr]


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


# --- files ------------------------------------------------------------------------------------------------------------

CCTAGS = """A , B and C sing
CP_START SEP CP CC CP NONE
NONE NONE NONE NONE NONE NONE

It rains
NONE NONE
"""
A_OR_B = {"words": ["A", "or", "B"], "coordinations": [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}]}
TREE = """# text = cats and dogs sleep
1\tcats\t_\tNOUN\t_\t_\t4\tnsubj\t_\t_
2\tand\t_\tCCONJ\t_\t_\t3\tcc\t_\t_
3\tdogs\t_\tNOUN\t_\t_\t1\tconj\t_\t_
4\tsleep\t_\tVERB\t_\t_\t0\troot\t_\t_

1\tcats\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
2\tdogs\t_\tNOUN\t_\t_\t1\tconj\t_\t_
3\tsleep\t_\tVERB\t_\t_\t0\troot\t_\t_
"""


def read(text: str, **grid: Any) -> list[Sentence]:
    data = Data.model_validate({"train": "x.txt", "format": "coordinations", "grid": grid})
    return list(read_corpus("x.txt", "coordinations", data=data, lines=text.split("\n")))


def scored(text: str) -> list[tuple[list[str], dict[int, Coordination | None]]]:
    """The sentences as `score` reads them."""
    return [(each.words, each.coordinations) for each in read_coordinations(text.split("\n"), "c.txt")]


def test_rows_of_labels() -> None:
    first, second = read(CCTAGS)
    assert (first.words, first.grid) == (["A", ",", "B", "and", "C", "sing"], [[2, 4, 1, 3, 1, 0], [0] * 6])
    assert (second.words, second.grid, second.form, second.extra) == (["It", "rains"], [[0, 0]], "[]", 0)
    assert (first.counts, second.counts) == ({"kept": 1}, {})
    assert (first.where, second.where) == ("x.txt:1", "x.txt:5")
    text = "A , B and C\nCP_START SEP CP CC CP\nNONE NONE NONE NONE NONE\n\n \nIt rains\n\nand\nNONE\nCC\n"
    assert scored(text) == [
        (["A", ",", "B", "and", "C"], {3: Coordination(3, ((0, 1), (2, 3), (4, 5)))}),
        (["It", "rains"], {}),
        (["and"], {0: None}),
    ]
    row, none = "CP_START CC CP", "NONE NONE NONE"
    (sentence,) = read(f"a or b\n{none}\n{none}\n{none}\n{row}\n")
    assert (sentence.grid, sentence.counts) == ([[0, 0, 0]] * 3, {"too deep": 1})
    (sentence,) = read(f"a or b\n{none}\n{none}\n{none}\n{row}\n", rows=4)
    assert ((sentence.grid or [])[3], sentence.counts) == ([2, 3, 1], {"kept": 1})


def test_json_lines_and_trees() -> None:
    line = json.dumps(A_OR_B)
    assert scored(f"{line}\n\n{line}\n") == [(["A", "or", "B"], {1: Coordination(1, ((0, 1), (2, 3)))})] * 2
    (sentence,) = read(line)
    expected = (["A", "or", "B"], [[2, 3, 1], [0] * 3, [0] * 3], {"kept": 1})
    assert (sentence.words, sentence.grid, sentence.counts) == expected
    first, second = read(TREE)
    assert (first.words, first.grid) == (["cats", "and", "dogs", "sleep"], [[2, 3, 1, 0], [0] * 4, [0] * 4])
    assert (first.counts, second.counts) == ({"kept": 1}, {"no coordinator": 1})
    assert (first.heads, first.tags) == (None, {})
    with pytest.raises(DataError, match=r"^x.txt:1: a sentence without a tree") as raised:
        read(TREE.replace("\t4\tnsubj", "\t_\tnsubj"))
    assert "HEAD" in (raised.value.hint or "")


def test_coordinations_without_a_row_are_still_gold() -> None:
    deep = "A and B or C\nCP_START CC CP NONE NONE\nNONE NONE CP_START CC CP\n"
    objects = [{"cc": 1, "conjuncts": [[0, 1], [2, 3]]}, {"cc": 3, "conjuncts": [[2, 3], [4, 5]]}]
    lines = json.dumps({"words": ["A", "and", "B", "or", "C"], "coordinations": objects})
    rows = [line.split() for line in ("A 0 root", "and 3 cc", "B 1 conj", "or 5 cc", "C 3 conj")]
    conllu = "".join(f"{i}\t{w}\t_\t_\t_\t_\t{h}\t{r}\t_\t_\n" for i, (w, h, r) in enumerate(rows, start=1))
    for text, end in ((deep, 3), (lines, 3), (conllu, 5)):
        (sentence,) = read(text, rows=1)
        assert json.loads(sentence.form or "") == [[1, [[0, 1], [2, end]]], [3, [[2, 3], [4, 5]]]]
        assert len(sentence.grid or ()) == 1
        assert sentence.counts == {"kept": 1, "too deep": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A or B\nCP_START CC", "c.txt:2: 2 tags of the 3 words of c.txt:1"),
        ("A or B\nCP_START CC CP CP", "c.txt:2: 4 tags of the 3 words of c.txt:1"),
        ("A or B\nCP_START CC ARG1", "c.txt:2: unknown tag 'ARG1'"),
        ("\nNONE CP\nA B", "c.txt:2: tags before any sentence"),
        ('{"words": ["A"]}', "c.txt:1: not a sentence with coordinations (KeyError"),
        ('{"words": "A", "coordinations": []}', "c.txt:1: not a sentence with coordinations (TypeError"),
        ('{"words": ["A", ""], "coordinations": []}', "c.txt:1: not a sentence with coordinations (TypeError"),
        ('{"words": ["A b"], "coordinations": []}', "c.txt:1: not a sentence with coordinations (TypeError"),
        ('{"words": ["\\ud800"], "coordinations": []}', "c.txt:1: not a sentence with coordinations (UnicodeEncode"),
        ('{"words": ["A"], "coordinations": []}\n\n[1]', "c.txt:3: not a sentence with coordinations (TypeError"),
        ('{"words": ["A"], "coordinations": []}\nA or B', "c.txt:2: not a sentence with coordinations (JSONDecode"),
        *(
            (
                json.dumps({"words": ["A", "or", "B"], "coordinations": [{"cc": cc, "conjuncts": conjuncts}]}),
                "c.txt:1: not a sentence with coordinations",
            )
            for cc, conjuncts in (
                (1, [[0, 1]]),
                (1, [[0, 1], [2, 4]]),
                (1, [[2, 3], [0, 1]]),
                (0, [[0, 1], [2, 3]]),
                (1.0, [[0, 1], [2, 3]]),
                (1, [[0, 1, 1], [2, 3]]),
                (1, [[-1, 1], [2, 3]]),
                (1, [[0, 0], [2, 3]]),
            )
        ),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        scored(text)
    assert raised.value.message.startswith(message)
    if "unknown" in message:
        assert "NONE, CP, CP_START, CC, SEP, OTHERS" in (raised.value.hint or "")


def test_sentences_without_coordinations_are_examples(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").write_text(CCTAGS)

    def prepared() -> Prepared:
        data = {"train": "train", "format": "coordinations"}
        return prepare(Recipe.model_validate({"name": "x", "data": data, "task": {"kind": "mlm"}}))

    corpora = prepared()
    assert len(corpora.splits["train"]) == 2
    assert corpora.manifest["notes"] == [
        "data.train: train: 2 sentences, 1 coordination: 1 kept; 1 sentence without coordinations"
    ]
    assert json.loads(corpora.splits["train"].text("form", 1)) == []
    assert corpora.labels == {}
    manifest = json.loads((corpora.folder / "manifest.json").read_text("utf-8"))
    manifest["splits"]["train"]["columns"].remove("form")  # as an earlier version wrote it
    (corpora.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert prepared().fresh is True
    assert prepared().fresh is False


# --- scores -----------------------------------------------------------------------------------------------------------

GOLD = Coordination(5, ((0, 2), (3, 4), (6, 8)))


def test_each_criterion() -> None:
    for predicted, right in (
        (GOLD, {"whole", "outer", "inner", "exact"}),
        (Coordination(5, ((0, 2), (6, 8))), {"whole", "outer"}),
        (Coordination(5, ((0, 1), (3, 4), (6, 8))), {"whole", "inner"}),
        (Coordination(5, ((1, 2), (3, 4), (6, 8))), {"inner"}),
        (Coordination(5, ((0, 2), (2, 4), (6, 8))), {"whole", "outer"}),
        (Coordination(5, ((0, 2), (3, 4), (6, 9))), set()),
    ):
        counts = coordination_counts({5: GOLD}, {5: predicted})
        assert counts == {"gold": 1, "predicted": 1, **dict.fromkeys(right, 1)}
    # The inner conjuncts of OpenIE6 are the outer ones.
    predicted = Coordination(5, ((0, 1), (3, 4), (6, 8)))
    assert coordination_counts({5: GOLD}, {5: predicted}, "o6")["inner"] == 0


def test_predictions_at_other_words_are_wrong() -> None:
    wrong = Coordination(2, ((0, 1), (3, 4)))
    pairs = [({5: GOLD}, {5: GOLD, 2: wrong}), ({2: None}, {2: wrong}), ({5: GOLD}, {5: None})]
    for compat, expected in ((None, (1 / 3, 1 / 2, 2 / 5)), ("o6", (1 / 2, 1 / 2, 1 / 2))):
        counts: Counter[str] = Counter()
        for gold, guess in pairs:
            counts.update(coordination_counts(gold, guess, compat))  # type: ignore[arg-type]
        assert tuple(coordination_scores(counts)["exact"].values()) == pytest.approx(expected)
    assert set(coordination_scores(coordination_counts({}, {}))["whole"].values()) == {0.0}
