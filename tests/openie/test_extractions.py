"""Grids of labels and tuples: worked examples, both ways, and tuples of text that are aligned with their sentences."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.openie.alignment import TupleWords, align
from probtrans_cli.openie.extractions import (
    EXTRA_WORDS,
    LABELS,
    TAGS,
    Extraction,
    characters_of,
    rows_to_tuples,
    tuple_to_row,
)

DOG = ["Tucker", ",", "my", "dog", ",", "is", "barking", "."]


def row(words: list[str], extra: str | None = None, **parts: str) -> list[int]:
    """A row of labels in which the words of each part, written once in the sentence, have its tag."""
    labels = [0] * (len(words) + len(EXTRA_WORDS))
    for tag, part in parts.items():
        for word in part.split():
            labels[words.index(word)] = TAGS[tag]
    if extra is not None:
        labels[len(words) + EXTRA_WORDS.index(extra)] = TAGS["REL"]
    return labels


def texts(words: list[str], rows: list[list[int]], **options: object) -> list[tuple[str, str, str]]:
    return [tuple(each.texts(words)) for each in rows_to_tuples(words, rows, **options)]  # type: ignore[arg-type,misc]


def test_a_sentence_with_two_tuples() -> None:
    assert [TAGS[name] for name in LABELS] == list(range(6))
    assert (TAGS["ARGS"], TAGS["LOC"], TAGS["TIME"]) == (TAGS["ARG2"], TAGS["LOC/TIME"], TAGS["LOC/TIME"])
    rows = [
        row(DOG, ARG1="Tucker", REL="is", ARG2="barking"),
        row(DOG, "is", ARG1="Tucker", ARG2="my dog"),
        row(DOG),
        row(DOG, ARG1="dog", REL="is", ARG2="barking"),  # behind the end of the list
    ]
    assert texts(DOG, rows) == [("Tucker", "is", "barking"), ("Tucker", "is", "my dog")]


def test_extra_words_make_relations_that_the_sentence_lacks() -> None:
    words = ["US", "president", "Donald", "Trump", "spoke"]
    for extra, relation in ((None, "president"), ("is", "is president"), ("of", "is president of")):
        expected = [("Donald Trump", relation, "US")]
        assert texts(words, [row(words, extra, ARG1="Donald Trump", REL="president", ARG2="US")]) == expected
    words = ["Ann", "Oslo"]  # of several extra words the last one counts, and no blank is left
    assert texts(words, [[1, 3, 2, 2, 2]]) == [("Ann", "is from", "Oslo")]
    assert texts(words, [[1, 3, 2, 0, 0]]) == [("Ann", "is", "Oslo")]
    assert texts(words, [[1, 3, 0, 2]], extra_words=("ist", "von")) == [("Ann", "ist von", "Oslo")]
    assert texts(words, [[1, 2]], extra_words=()) == [("Ann", "Oslo", "")]


def test_spans_may_have_gaps_and_places_and_times_stand_behind() -> None:
    words = ["On", "Monday", "Ann", "has", "in", "Oslo", "quickly", "eaten"]
    rows = [[4, 4, 1, 2, 4, 4, 3, 2, 0, 0, 0]]
    assert texts(words, rows) == [("Ann", "has eaten", "quickly On Monday in Oslo")]
    assert texts(words, rows, location_time=False) == [("Ann", "has eaten", "quickly")]
    parts = Extraction((0,), (1,), (5, 6), location_time=(2, 3, 8)).parts
    assert parts["arg2"] == (5, 6, 2, 3, 8)
    assert characters_of(parts["arg2"], [(4 * i, 4 * i + 3) for i in range(9)]) == [(20, 27), (8, 15), (32, 35)]


def test_characters_are_those_of_the_original_text() -> None:
    text = "  Ann, who   isn't here,\u00a0saw “Bob ” twice"
    words = ["Ann", ",", "who", "is", "n't", "here", ",", "saw", "“", "Bob", "”", "twice"]
    text, spans = character_spans(Sentence(words, text=text))
    for labels, expected in (
        ([1, 0, 0, 0, 0, 0, 0, 2, 0, 3, 3, 4, 0, 0, 0], {"arg1": ["Ann"], "rel": ["saw"], "arg2": ["Bob ” twice"]}),
        ([2, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], {"arg1": ["who   isn't"], "rel": ["Ann"], "arg2": []}),
    ):
        (extraction,) = rows_to_tuples(words, [labels])
        covered = {name: characters_of(part, spans) for name, part in extraction.parts.items()}
        assert {name: [text[start:end] for start, end in part] for name, part in covered.items()} == expected
    assert extraction.texts(words).relation == "is Ann from"


def test_incomplete_and_repeated_rows_are_dropped_and_counted() -> None:
    words = ["a", "b", "a", "b", "c"]
    rows = [
        [1, 2, 0, 0, 3, 0, 0, 0],
        [0, 0, 1, 2, 3, 0, 0, 0],  # other words, the same text
        [1, 0, 0, 0, 3, 0, 0, 0],
        [0, 2, 0, 0, 3, 0, 0, 0],
        [1, 0, 0, 0, 0, 2, 0, 0],
        [5, 5, 0, 0, 0, 0, 0, 0],  # TYPE is read as NONE, so this is the end
        [1, 2, 0, 0, 0, 0, 0, 0],
    ]
    dropped: Counter[str] = Counter()
    tuples = rows_to_tuples(words, rows, confidences=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], dropped=dropped)
    assert [(each.row, each.confidence) for each in tuples] == [(0, 0.9), (4, 0.5)]
    assert dropped == {"repeated": 1, "incomplete": 2}


def test_impossible_rows_and_tuples_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1: 4 labels of 2 words and 3 extra words"):
        rows_to_tuples(["a", "b"], [[1, 2, 0, 0, 0], [1, 2, 0, 0]])
    with pytest.raises(ValueError, match="word 0 is ARG1 and REL"):
        tuple_to_row(Extraction((0,), (0,)), 1)
    with pytest.raises(ValueError, match="extra words"):
        tuple_to_row(Extraction((0,), (1,), added=("was",)), 2)


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[str], list[list[int]]]:
    words = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=8))
    width = len(words)
    labels = st.lists(st.integers(0, 4), min_size=width, max_size=width)
    extra = st.sampled_from([[0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, 2]])
    rows = draw(st.lists(st.tuples(labels, extra).map(lambda both: both[0] + both[1]), max_size=4))
    return words, rows


@given(grids())
def test_a_row_gives_its_tuple_and_the_tuple_its_row(grid: tuple[list[str], list[list[int]]]) -> None:
    words, rows = grid
    tuples = rows_to_tuples(words, rows)
    assert [tuple_to_row(each, len(words)) for each in tuples] == [rows[each.row] for each in tuples]


# --- tuples of text ---------------------------------------------------------------------------------------------------


def of(arg1: str, relation: str, arg2: str = "", **more: str) -> TupleWords:
    return TupleWords(arg1.split(), relation.split(), arg2.split(), **{key: text.split() for key, text in more.items()})


def place(sentence: str, tuple_words: TupleWords, share: float = 1.0) -> Extraction:
    """The words of a tuple that is found, and whose row gives it again."""
    words = sentence.split()
    extraction, counts = align(words, tuple_words, share=share)
    assert extraction is not None, counts
    assert rows_to_tuples(words, [tuple_to_row(extraction, len(words))]) == [extraction]
    return extraction


@pytest.mark.parametrize(
    ("sentence", "tuple_words", "share", "expected", "counts"),
    [
        # Words are found, not letters, and a part in pieces at the shortest stretch.
        ("a part of the art is lost", of("the art", "is lost"), 1, ("the art", "is lost", ""), {"kept": 1}),
        ("a part of the art is lost", of("art of", "is lost"), 1, None, {"arg1 not found": 1}),
        ("Ann saw Bob", of("Ann", "was seen"), 1, None, {"relation not found": 1}),
        ("Ann saw Bob", of("Ann", "saw", "Carl"), 1, None, {"arg2 not found": 1}),
        ("Ann saw Bob", of("", "saw"), 1, None, {"incomplete": 1}),
        ("Ann saw Bob", of("Ann saw", "saw Bob"), 1, None, {"overlapping": 1}),
        ("saw x y x y", of("x", "saw", "y"), 1, None, {"ambiguous": 1}),
        # Of the second argument the longest that is there.
        (
            "Ann gave Bob a book in Oslo",
            of("Ann", "gave", "Bob", further="a book", location="in Oslo", time="tomorrow"),
            1,
            ("Ann", "gave", "Bob a book in Oslo"),
            {"kept": 1, "shortened": 1},
        ),
        # Words that the sentence lacks are left out.
        ("Ann saw Bob", of("Ann", "has seen saw", "Bob Bob"), 0.5, None, {"relation not found": 1}),
        ("Ann saw Bob", of("Ann", "has saw", "the Bob"), 0.5, ("Ann", "saw", "Bob"), {"without some words": 1}),
        ("Ann saw old Bob", of("Ann", "saw", "Bob old"), 0.5, ("Ann", "saw", "old Bob"), {"kept": 1}),  # another order
        ("Ann , a judge", of("Ann", "was a judge"), 0.5, ("Ann", "a judge", ""), {"without some words": 1}),
        ("Ann , a judge", of("Ann", "is a judge"), 0.5, ("Ann", "is a judge", ""), {"kept": 1}),
        ("Ann Ann saw Bob", of("Ann", "saw", "Ann"), 0.5, ("Ann", "saw", "Ann"), {"one of several places": 1}),
        ("Ann saw Bob", of("Ann", "saw Ann", "Bob"), 0.5, ("Ann", "saw", "Bob"), {"without some words": 1}),
        ("Ann saw Bob", of("Ann", "saw", "Ann"), 0.5, None, {"overlapping": 1}),
        ("Ann saw Bob", of("a b Ann", "saw", "Bob"), 0.5, None, {"arg1 not found": 1}),
        ("Ann saw Bob", of("Ann", "saw", "the old Bob"), 0.5, None, {"arg2 not found": 1}),
        ("Ann saw Bob", of("Ann", "saw", "Bob", further="in Oslo at"), 0.5, ("Ann", "saw", "Bob"), {"shortened": 1}),
    ],
)
def test_which_words_are_found_and_what_is_counted(
    sentence: str, tuple_words: TupleWords, share: float, expected: tuple[str, ...] | None, counts: dict[str, int]
) -> None:
    extraction, counted = align(sentence.split(), tuple_words, share=share)
    assert (None if extraction is None else tuple(extraction.texts(sentence.split()))) == expected
    assert counted["kept"] == (expected is not None)
    assert set(counts) <= set(counted)
    assert set(counted) <= {*counts, "kept", "in pieces", "one of several places"}


@pytest.mark.parametrize(
    ("sentence", "tuple_words", "share", "parts"),
    [
        ("has x y has been z seen Ann", of("Ann", "has seen"), 1, {"rel": (3, 6)}),
        ("has x y seen has z seen has x x seen Ann", of("Ann", "has seen"), 1, {"rel": (4, 6)}),
        # Of several places the nearest is taken.
        ("Ann says Ann saw Bob", of("Ann", "saw", "Bob"), 1, {"arg1": (2,), "rel": (3,), "arg2": (4,)}),
        ("saw Ann saw Bob x x x saw", of("Ann", "saw", "Bob"), 1, {"arg1": (1,), "rel": (2,), "arg2": (3,)}),
        ("Bob x Ann saw Bob", of("Ann", "saw", "Bob"), 1, {"arg1": (2,), "rel": (3,), "arg2": (4,)}),
        ("Ann Ann saw", of("Ann", "Ann saw"), 1, {"arg1": (0,), "rel": (1, 2)}),  # the free one
        ("Ann saw Bob and Ann saw Carl", of("Ann", "saw", "Carl"), 0.5, {"arg1": (4,), "rel": (5,), "arg2": (6,)}),
        # The shortest stretch that has the words in any order.
        (
            "old x x Bob y z Bob is old saw a x b a Ann",
            of("Ann", "saw a b", "old Bob the"),
            0.5,
            {"arg1": (14,), "rel": (9, 10, 12), "arg2": (6, 8)},
        ),
    ],
)
def test_which_place_a_part_has(
    sentence: str, tuple_words: TupleWords, share: float, parts: dict[str, tuple[int, ...]]
) -> None:
    placed = place(sentence, tuple_words, share).parts
    assert {name: placed[name] for name in parts} == parts


@pytest.mark.parametrize(
    ("relation", "text", "words"),
    [
        ("[is] president [of]", "is president of", (1,)),
        ("[is] president", "is president", (1,)),
        ("[is] from", "is from", (5,)),  # the sentence's own word is tried before the extra one
        ("is president of", "is president of", (1,)),
        ("is president", "is president", (1,)),
        ("president", "president", (1,)),
        ("[is]", "is", ()),
        ("is", "is", ()),
        ("[is] [of]", "is of", ()),
    ],
)
def test_relations_with_extra_words(relation: str, text: str, words: tuple[int, ...]) -> None:
    sentence = "US president Donald Trump came from Bonn"
    extraction = place(sentence, of("Donald Trump", relation, "US"))
    assert extraction.texts(sentence.split()) == ("Donald Trump", text, "US")
    assert extraction.relation == words


def test_marks_of_place_and_time_stay_with_their_words() -> None:
    lenient = of("Ann", "met", "the Bob", location="In Oslo", time="on a Monday")
    extraction = place("In Oslo Ann met Bob on Monday", lenient, 0.5)
    assert (extraction.arg2, extraction.location_time) == ((4,), (0, 1, 5, 6))


def test_a_part_of_very_many_words_is_not_looked_for_in_order() -> None:
    words = ["a", "b", "c"] * 700
    long = TupleWords(["c"], ["a", "c"] * 250)
    assert align(words[:1500], long)[1]["in pieces"] == 1
    assert align(words, long)[1] == {"relation not found": 1}
    assert align(words, long, share=0.5)[1]["kept"] == 1


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=9),
    st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4), min_size=3, max_size=3),
    st.sampled_from([0.01, 0.5, 0.9]),
)
def test_what_is_labelled_are_words_of_the_part(words: list[str], parts: list[list[str]], share: float) -> None:
    tuple_words = TupleWords(*parts)
    extraction, counts = align(words, tuple_words, share=share)
    assert counts.total() >= 1
    if extraction is not None:
        assert rows_to_tuples(words, [tuple_to_row(extraction, len(words))]) == [extraction]
        distinct = len({*parts[0], *parts[1], *parts[2]}) == sum(len({*part}) for part in parts)
        for part, positions in zip(parts, extraction.parts.values(), strict=True):
            labelled, wanted = Counter(words[i] for i in positions), Counter(part)
            assert labelled <= wanted
            assert labelled.total() >= share * len(part)
            if distinct:  # no word is of two parts
                assert labelled == Counter(words) & wanted
    strict, _ = align(words, tuple_words)
    assert strict is None or extraction is not None
