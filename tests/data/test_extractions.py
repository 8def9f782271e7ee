"""Grids of labels and tuples: worked examples, both ways, and tuples of text that are found in their sentences."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.sentence import Sentence, character_spans
from probtrans_cli.data.tokens import words_of
from probtrans_cli.openie.extraction_rows import TupleWords, tuples_to_rows
from probtrans_cli.openie.extractions import EXTRA_WORDS, LABELS, TAGS, Extraction, rows_to_tuples, tuple_to_row

DOG = words_of("Tucker , my dog , is barking .")


def row(words: list[str], extra: str | None = None, **of: str) -> list[int]:
    """A row of labels in which the words of each part, written once in the sentence, have its tag."""
    labels = [0] * (len(words) + len(EXTRA_WORDS))
    for tag, part in of.items():
        for word in part.split():
            labels[words.index(word)] = TAGS[tag]
    if extra is not None:
        labels[len(words) + EXTRA_WORDS.index(extra)] = TAGS["REL"]
    return labels


def texts(words: list[str], rows: list[list[int]], **options: object) -> list[tuple[str, str, str]]:
    return [tuple(one.texts(words)) for one in rows_to_tuples(words, rows, **options)]  # type: ignore[arg-type,misc]


def in_text(text: str, one: Extraction, spans: list[tuple[int, int]]) -> dict[str, list[str]]:
    """The stretches of the original text that each part covers."""
    return {name: [text[start:end] for start, end in of_part] for name, of_part in one.characters(spans).items()}


def test_labels_have_the_numbers_of_their_tags() -> None:
    assert [TAGS[name] for name in LABELS] == list(range(6))
    assert TAGS["ARGS"] == TAGS["ARG2"]
    assert TAGS["LOC"] == TAGS["TIME"] == TAGS["LOC/TIME"]


def test_a_sentence_with_two_tuples() -> None:
    rows = [
        row(DOG, ARG1="Tucker", REL="is", ARG2="barking"),
        row(DOG, "is", ARG1="Tucker", ARG2="my dog"),
        row(DOG),
        row(DOG, ARG1="dog", REL="is", ARG2="barking"),  # behind the end of the list
    ]
    assert texts(DOG, rows) == [("Tucker", "is", "barking"), ("Tucker", "is", "my dog")]


@pytest.mark.parametrize(
    ("extra", "relation"), [(None, "president"), ("is", "is president"), ("of", "is president of"), ("from", None)]
)
def test_extra_words_make_relations_that_the_sentence_lacks(extra: str | None, relation: str | None) -> None:
    words = words_of("US president Donald Trump spoke")
    found = texts(words, [row(words, extra, ARG1="Donald Trump", REL="president", ARG2="US")])
    assert found == [("Donald Trump", relation or "is president from", "US")]


def test_of_several_extra_words_the_last_one_counts_and_no_blank_is_left() -> None:
    words = ["Ann", "Oslo"]
    assert texts(words, [[1, 3, 2, 2, 2]]) == [("Ann", "is from", "Oslo")]
    assert texts(words, [[1, 3, 2, 0, 0]]) == [("Ann", "is", "Oslo")]
    assert texts(words, [[1, 3, 0, 2]], extra_words=("ist", "von")) == [("Ann", "ist von", "Oslo")]
    assert texts(words, [[1, 2]], extra_words=()) == [("Ann", "Oslo", "")]


def test_spans_may_have_gaps_and_places_and_times_stand_behind() -> None:
    words = words_of("On Monday Ann has in Oslo quickly eaten")
    rows = [[4, 4, 1, 2, 4, 4, 3, 2, 0, 0, 0]]
    assert texts(words, rows) == [("Ann", "has eaten", "quickly On Monday in Oslo")]
    assert texts(words, rows, location_time=False) == [("Ann", "has eaten", "quickly")]
    spans = [(0, 2), (3, 9), (11, 14), (15, 18), (19, 21), (22, 26), (27, 34), (35, 40)]
    (one,) = rows_to_tuples(words, rows)
    arg2 = [(27, 34), (0, 9), (19, 26)]
    assert one.characters(spans) == {"arg1": [(11, 14)], "rel": [(15, 18), (35, 40)], "arg2": arg2}


def test_characters_are_those_of_the_original_text() -> None:
    text = "  Ann, who   isn't here,\u00a0saw “Bob ” twice"
    words = ["Ann", ",", "who", "is", "n't", "here", ",", "saw", "“", "Bob", "”", "twice"]
    text, spans = character_spans(Sentence(words, text=text))
    (one,) = rows_to_tuples(words, [[1, 0, 0, 0, 0, 0, 0, 2, 0, 3, 3, 4, 0, 0, 0]])
    assert in_text(text, one, spans) == {"arg1": ["Ann"], "rel": ["saw"], "arg2": ["Bob ” twice"]}
    (one,) = rows_to_tuples(words, [[2, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]])
    assert in_text(text, one, spans) == {"arg1": ["who   isn't"], "rel": ["Ann"], "arg2": []}
    assert one.texts(words).relation == "is Ann from"


def test_incomplete_and_repeated_rows_are_dropped_and_counted() -> None:
    words = words_of("a b a b c")
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
    found = rows_to_tuples(words, rows, confidences=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], dropped=dropped)
    assert [(one.row, one.confidence) for one in found] == [(0, 0.9), (4, 0.5)]
    assert dropped == {"repeated": 1, "incomplete": 2}


def test_a_tuple_that_another_part_of_the_sentence_had_is_repeated() -> None:
    seen: set[str] = set()
    assert len(rows_to_tuples(["a", "b"], [[1, 2, 0, 0, 0]], seen=seen)) == 1
    assert rows_to_tuples(["x", "a", "b"], [[0, 1, 2, 0, 0, 0]], seen=seen) == []


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1: 4 labels of 2 words and 3 extra words"):
        rows_to_tuples(["a", "b"], [[1, 2, 0, 0, 0], [1, 2, 0, 0]])


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
    found = rows_to_tuples(words, rows)
    assert [tuple_to_row(one, len(words)) for one in found] == [rows[one.row] for one in found]


def test_words_of_two_parts_and_unknown_added_words_are_no_row() -> None:
    with pytest.raises(ValueError, match="word 0 is ARG1 and REL"):
        tuple_to_row(Extraction((0,), (0,)), 1)
    with pytest.raises(ValueError, match="extra words"):
        tuple_to_row(Extraction((0,), (1,), added=("was",)), 2)


# --- tuples of text ---------------------------------------------------------------------------------------------------


def found_in(sentence: str, *tuples: TupleWords, rows: int | None = None) -> tuple[list[tuple[str, ...]], Counter[str]]:
    words = sentence.split()
    labelled = tuples_to_rows(words, tuples, rows=rows)
    assert rows_to_tuples(words, labelled.rows, confidences=[one.confidence for one in labelled.extractions]) == (
        labelled.extractions
    )
    assert labelled.counts["kept"] == len(labelled.kept) == len(labelled.rows)
    return [tuple(one.texts(words)) for one in labelled.extractions], labelled.counts


def of(arg1: str, relation: str, arg2: str = "", **more: str) -> TupleWords:
    return TupleWords(arg1.split(), relation.split(), arg2.split(), **{key: text.split() for key, text in more.items()})


def test_parts_are_found_as_words_and_not_inside_of_words() -> None:
    found, counts = found_in("a part of the art is lost", of("the art", "is lost"), of("art of", "is lost"))
    assert found == [("the art", "is lost", "")]
    assert counts == {"kept": 1, "arg1 not found": 1}


def test_a_part_in_pieces_has_the_shortest_stretch() -> None:
    words = words_of("has x y has been z seen Ann")
    labelled = tuples_to_rows(words, [of("Ann", "has seen")])
    assert labelled.extractions[0].relation == (3, 6)
    assert labelled.counts == {"kept": 1, "in pieces": 1}
    words = words_of("has x y seen has z seen has x x seen Ann")
    assert tuples_to_rows(words, [of("Ann", "has seen")]).extractions[0].relation == (4, 6)


@pytest.mark.parametrize(
    ("sentence", "one", "place"),
    [
        ("Ann says Ann saw Bob", of("Ann", "saw", "Bob"), {"arg1": (2,), "rel": (3,), "arg2": (4,)}),
        ("saw Ann saw Bob x x x saw", of("Ann", "saw", "Bob"), {"arg1": (1,), "rel": (2,), "arg2": (3,)}),
        ("Bob x Ann saw Bob", of("Ann", "saw", "Bob"), {"arg1": (2,), "rel": (3,), "arg2": (4,)}),
        ("Ann Ann saw", of("Ann", "Ann saw"), {"arg1": (0,), "rel": (1, 2), "arg2": ()}),  # the free one
    ],
)
def test_of_several_places_the_nearest_is_taken(
    sentence: str, one: TupleWords, place: dict[str, tuple[int, ...]]
) -> None:
    labelled = tuples_to_rows(sentence.split(), [one])
    assert labelled.extractions[0].parts == place
    assert labelled.counts == {"kept": 1, "one of several places": 1}


def test_tuples_that_cannot_be_labelled_are_counted_by_reason() -> None:
    tuples = [
        of("Ann", "saw", "Bob"),
        of("Ann", "saw", "Bob"),
        of("Ann", "was seen"),
        of("Ann", "saw", "Carl"),
        of("", "saw"),
        of("Ann saw", "saw Bob"),
        of("x", "saw", "y"),
        of("it", "was", "seen"),
    ]
    found, counts = found_in("Ann saw Bob x y x y", *tuples)
    assert found == [("Ann", "saw", "Bob")]
    assert counts == {
        "kept": 1,
        "repeated": 1,
        "relation not found": 1,
        "arg2 not found": 1,
        "incomplete": 1,
        "overlapping": 1,
        "ambiguous": 1,
        "arg1 not found": 1,
    }


def test_rows_beyond_the_most_are_counted_and_order_is_kept() -> None:
    found, counts = found_in("a b c d", of("c", "d"), of("a", "b"), of("b", "c"), rows=2)
    assert found == [("c", "d", ""), ("a", "b", "")]
    assert counts == {"kept": 2, "too many": 1}


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
    sentence = words_of("US president Donald Trump came from Bonn")
    labelled = tuples_to_rows(sentence, [of("Donald Trump", relation, "US")])
    (one,) = labelled.extractions
    assert one.texts(sentence) == ("Donald Trump", text, "US")
    assert one.relation == words


def test_the_longest_second_argument_that_is_there_is_taken() -> None:
    sentence = "Yesterday Ann gave Bob a book in Oslo"
    whole = of("Ann", "gave", "Bob", further="a book", location="in Oslo")
    found, counts = found_in(sentence, whole)
    assert found == [("Ann", "gave", "Bob a book in Oslo")]
    assert counts == {"kept": 1}
    row = tuples_to_rows(sentence.split(), [whole]).rows[0]
    assert row == [0, 1, 2, 3, 3, 3, 4, 4, 0, 0, 0]
    found, counts = found_in(sentence, whole._replace(time=["tomorrow"]))
    assert found == [("Ann", "gave", "Bob a book in Oslo")]
    assert counts == {"kept": 1, "shortened": 1}


@given(st.permutations("abcdefgh"), st.data())
def test_tuples_of_different_words_come_back(letters: list[str], data: st.DataObject) -> None:
    """Tuples to rows to tuples: parts in any order, with gaps, of a sentence without a word twice."""
    labels = data.draw(st.lists(st.integers(0, 3), min_size=8, max_size=8))
    parts = [[letter for letter, label in zip(letters, labels, strict=True) if label == part] for part in (1, 2, 3)]
    one = TupleWords(*parts)
    labelled = tuples_to_rows(letters, [one])
    if parts[0] and parts[1]:
        (back,) = rows_to_tuples(letters, labelled.rows)
        assert back.texts(letters) == (" ".join(parts[0]), " ".join(parts[1]), " ".join(parts[2]))
    else:
        assert labelled.counts == {"incomplete": 1}


# --- tuples with words that the sentence lacks ------------------------------------------------------------------------


def lenient(sentence: str, *tuples: TupleWords, share: float = 0.5) -> tuple[list[tuple[str, ...]], Counter[str]]:
    words = sentence.split()
    labelled = tuples_to_rows(words, tuples, share=share)
    assert rows_to_tuples(words, labelled.rows) == labelled.extractions
    return [tuple(one.texts(words)) for one in labelled.extractions], labelled.counts


@pytest.mark.parametrize(
    ("sentence", "one", "texts", "counts"),
    [
        ("Ann saw Bob", of("Ann", "has seen saw", "Bob Bob"), None, {"relation not found": 1}),
        ("Ann saw Bob", of("Ann", "has saw", "the Bob"), ("Ann", "saw", "Bob"), {"without some words": 1}),
        ("Ann saw old Bob", of("Ann", "saw", "Bob old"), ("Ann", "saw", "old Bob"), {}),  # of another order
        ("Ann , a judge , saw it", of("Ann", "was a judge"), ("Ann", "a judge", ""), {"without some words": 1}),
        ("Ann , a judge , saw it", of("Ann", "is a judge"), ("Ann", "is a judge", ""), {}),
        ("Ann Ann saw Bob", of("Ann", "saw", "Ann"), ("Ann", "saw", "Ann"), {}),
        ("Ann saw Bob", of("Ann", "saw Ann", "Bob"), ("Ann", "saw", "Bob"), {"without some words": 1}),
        ("Ann saw Bob", of("Ann", "saw", "Ann"), None, {"overlapping": 1}),
        ("Ann saw Bob", of("a b Ann", "saw", "Bob"), None, {"arg1 not found": 1}),
        ("Ann saw Bob", of("Ann", "saw", "the old Bob"), None, {"arg2 not found": 1}),
        ("Ann saw Bob", of("Ann", "saw", "Bob", further="in Oslo at"), ("Ann", "saw", "Bob"), {"shortened": 1}),
    ],
)
def test_words_that_the_sentence_lacks_are_left_out(
    sentence: str, one: TupleWords, texts: tuple[str, ...] | None, counts: dict[str, int]
) -> None:
    found, counted = lenient(sentence, one)
    assert found == ([] if texts is None else [texts])
    assert counted["kept"] == len(found)
    for quality in ("kept", "in pieces", "one of several places"):
        counted.pop(quality, None)
    assert counted == counts


def test_the_shortest_stretch_that_has_the_words_is_taken() -> None:
    words = words_of("old x x Bob y z Bob is old saw a x b a Ann")
    (one,) = tuples_to_rows(words, [of("Ann", "saw a b", "old Bob the")], share=0.5).extractions
    assert one.parts == {"arg1": (14,), "rel": (9, 10, 12), "arg2": (6, 8)}


def test_marks_of_place_and_time_stay_with_their_words() -> None:
    words = words_of("In Oslo Ann met Bob on Monday")
    (one,) = tuples_to_rows(
        words, [of("Ann", "met", "the Bob", location="In Oslo", time="on a Monday")], share=0.5
    ).extractions
    assert (one.arg2, one.location_time) == ((4,), (0, 1, 5, 6))


def test_several_parts_at_several_places_are_near_each_other() -> None:
    words = words_of("Ann saw Bob and Ann saw Carl")
    one = of("Ann", "saw", "Carl")
    assert tuples_to_rows(words, [one]).counts == {"ambiguous": 1}
    labelled = tuples_to_rows(words, [one], share=0.5)
    assert labelled.extractions[0].parts == {"arg1": (4,), "rel": (5,), "arg2": (6,)}


def test_a_part_of_very_many_words_is_not_looked_for_in_order() -> None:
    words = ["a", "b", "c"] * 700
    one = TupleWords(["c"], ["a", "c"] * 250)
    assert tuples_to_rows(words[:1500], [one]).counts["in pieces"] == 1
    assert tuples_to_rows(words, [one]).counts == {"relation not found": 1}
    assert tuples_to_rows(words, [one], share=0.5).counts["kept"] == 1


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=9),
    st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4), min_size=3, max_size=3),
    st.sampled_from([0.01, 0.5, 0.9]),
)
def test_what_is_labelled_are_words_of_the_part(words: list[str], parts: list[list[str]], share: float) -> None:
    one = TupleWords(*parts)
    labelled = tuples_to_rows(words, [one], share=share)
    assert labelled.counts.total() >= 1
    for found in labelled.extractions:
        assert rows_to_tuples(words, labelled.rows) == [found]
        for part, place in zip(parts, found.parts.values(), strict=True):
            labels, wanted = Counter(words[i] for i in place), Counter(part)
            assert labels <= wanted
            assert labels.total() >= share * len(part)
        if len({*parts[0], *parts[1], *parts[2]}) == sum(len({*part}) for part in parts):  # no word is of two parts
            for part, place in zip(parts, found.parts.values(), strict=True):
                assert Counter(words[i] for i in place) == Counter(words) & Counter(part)
    whole = tuples_to_rows(words, [one])
    assert whole.counts["kept"] <= labelled.counts["kept"]
