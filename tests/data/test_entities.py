"""Tags of entities: their notations and schemes against regular expressions, and scores against sets and conlleval."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tags import convert, entity_scores, problems, spans

from probtrans_cli.data.entities import (
    MisfitError,
    Scheme,
    Span,
    compare,
    detect,
    faults,
    misplaced,
    plain_tags,
    read_spans,
    strict_spans,
    tags_of,
)

SCHEMES: tuple[Scheme, ...] = ("iob2", "bioes", "bilou", "iob1", "bmes", "bmewo")
LETTERS: dict[Scheme, str] = {
    "iob2": "BI", "bioes": "BIES", "bilou": "BILU", "iob1": "BI", "bmes": "BMES", "bmewo": "BMEW"
}  # fmt: skip
# One entity of a type of one letter, in tags that each end in a space.
ENTITY: dict[Scheme, str] = {
    "iob2": r"B-(\w) (?:I-\1 )*",
    "bioes": r"S-\w |B-(\w) (?:I-\1 )*E-\1 ",
    "bilou": r"U-\w |B-(\w) (?:I-\1 )*L-\1 ",
    "bmes": r"S-\w |B-(\w) (?:M-\1 )*E-\1 ",
    "bmewo": r"W-\w |B-(\w) (?:M-\1 )*E-\1 ",
    "iob1": r"(?:I-|(?<=-X )B-(?=X)|(?<=-Y )B-(?=Y))(\w) (?:I-\1 )*",
}


def read_by_expression(tags: list[str], scheme: Scheme) -> list[Span]:
    text = "".join(f"{tag} " for tag in tags)
    matches = [(match.start(), match.end(), match[0]) for match in re.finditer(ENTITY[scheme], text)]
    return [Span(text[:start].count(" "), text[:end].count(" "), entity[2]) for start, end, entity in matches]


def valid_by_expression(tags: list[str], scheme: Scheme) -> bool:
    return re.fullmatch(f"(?:O |{ENTITY[scheme]})*", "".join(f"{tag} " for tag in tags)) is not None


def can_become_valid(tags: list[str], scheme: Scheme) -> bool:
    """Whether the tags begin a valid sequence; one more tag ends every entity."""
    return any(valid_by_expression(tags + more, scheme) for more in every(scheme, 1))


def every(scheme: Scheme, longest: int = 3) -> Iterator[list[str]]:
    """Every sequence of the scheme's tags of the types X and Y, valid or not."""
    known = ["O", *(f"{letter}-{kind}" for letter in LETTERS[scheme] for kind in "XY")]
    for length in range(longest + 1):
        yield from map(list, product(known, repeat=length))


def test_every_short_sequence_is_read_as_the_scheme_says() -> None:
    for scheme in SCHEMES:
        assert problems(["O", ""], scheme) is not None, "an empty tag is no tag"
        for tags in every(scheme):
            problem = problems(tags, scheme)
            assert (problem is None) == valid_by_expression(tags, scheme), (tags, problem)
            if problem is None:
                assert spans(tags, scheme) == read_by_expression(tags, scheme), tags
                continue
            index, reason = problem
            assert can_become_valid(tags[:index], scheme), (tags, problem)
            assert can_become_valid(tags[: index + 1], scheme) == ("at the end" in reason), (tags, problem)
            with pytest.raises(ValueError, match=f"^tag at index {index}: "):
                spans(tags, scheme)


def test_conversion_loses_nothing() -> None:
    valid = {scheme: [tags for tags in every(scheme) if problems(tags, scheme) is None] for scheme in SCHEMES}
    for source, target in product(SCHEMES, SCHEMES):
        converted = [convert(tags, source, target) for tags in valid[source]]
        assert sorted(converted) == sorted(valid[target])
        assert [convert(tags, target, source) for tags in converted] == valid[source]


def test_each_scheme_by_example() -> None:
    entities = [Span(0, 2, "PER"), Span(2, 3, "PER"), Span(3, 6, "creative-work"), Span(7, 8, "PER")]
    expected = {
        "iob2": "B-PER I-PER B-PER B-creative-work I-creative-work I-creative-work O B-PER",
        "bioes": "B-PER E-PER S-PER B-creative-work I-creative-work E-creative-work O S-PER",
        "bilou": "B-PER L-PER U-PER B-creative-work I-creative-work L-creative-work O U-PER",
        "iob1": "I-PER I-PER B-PER I-creative-work I-creative-work I-creative-work O I-PER",
        "bmes": "B-PER E-PER S-PER B-creative-work M-creative-work E-creative-work O S-PER",
        "bmewo": "B-PER E-PER W-PER B-creative-work M-creative-work E-creative-work O W-PER",
    }
    for scheme in SCHEMES:
        assert tags_of(reversed(entities), 8, scheme) == expected[scheme].split()
        assert spans(expected[scheme].split(), scheme) == entities


def test_the_first_problem_is_named() -> None:
    for scheme, tags, index, reason in [
        ("iob2", "O I-PER", 1, "I-PER after O; in iob2 I-PER comes only after B-PER or I-PER"),
        ("iob2", "I-PER", 0, "I-PER at the start; in iob2 I-PER comes only after B-PER or I-PER"),
        ("iob2", "B-LOC I-PER", 1, "I-PER after B-LOC; in iob2 I-PER comes only after B-PER or I-PER"),
        ("iob2", "O S-PER", 1, "'S-PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
        ("iob2", "O NNP", 1, "'NNP' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
        ("iob2", "B-PER I", 1, "'I' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
        ("iob2", "B-", 0, "'B-' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
        ("iob2", "O-PER", 0, "'O-PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
        ("iob2", "B_PER", 0, "'B_PER' is no tag of iob2 (O, B-TYPE, I-TYPE)"),
        ("iob1", "O B-PER", 1, "B-PER after O; in iob1 B-PER comes only after B-PER or I-PER"),
        ("iob1", "O E-PER", 1, "'E-PER' is no tag of iob1 (O, B-TYPE, I-TYPE)"),
        ("bioes", "B-PER O", 1, "O after B-PER; in bioes only I-PER or E-PER follows it"),
        ("bioes", "B-PER S-PER", 1, "S-PER after B-PER; in bioes only I-PER or E-PER follows it"),
        ("bioes", "S-PER E-PER", 1, "E-PER after S-PER; in bioes E-PER comes only after B-PER or I-PER"),
        ("bioes", "O B-PER I-PER", 2, "I-PER at the end; in bioes only I-PER or E-PER follows it"),
        ("bioes", "L-PER", 0, "'L-PER' is no tag of bioes (O, B-TYPE, I-TYPE, E-TYPE, S-TYPE)"),
        ("bilou", "B-PER O", 1, "O after B-PER; in bilou only I-PER or L-PER follows it"),
        ("bmes", "B-PER O", 1, "O after B-PER; in bmes only M-PER or E-PER follows it"),
        ("bmes", "O M-PER", 1, "M-PER after O; in bmes M-PER comes only after B-PER or M-PER"),
    ]:
        assert problems(tags.split(), scheme) == (index, reason)
        with pytest.raises(ValueError, match=f"^tag at index {index}: {re.escape(reason)}$"):
            convert(tags.split(), scheme, "iob1")


def test_spans_that_no_sentence_has() -> None:
    for entities in [[(0, 0, "X")], [(1, 4, "X")], [(0, 1, "")], [(0, 2, "X"), (1, 3, "Y")], [(-1, 1, "X")]]:
        with pytest.raises(ValueError, match="no entity of a sentence of 3 words"):
            tags_of([Span(*span) for span in entities], 3, "iob2")


def test_the_scheme_is_detected() -> None:
    for scheme in SCHEMES:
        for tags in every(scheme):
            if problems(tags, scheme) is None:
                fitting = [name for name in SCHEMES if problems(tags, name) is None]
                for strict in (False, True):
                    assert detect(iter([["O"], tags, []]), strict=strict) == fitting[0], tags
                    assert detect([tags], strict=strict, prefer=scheme) == scheme, tags
                assert len({tuple(spans(tags, name)) for name in fitting}) == 1, "two schemes, one meaning"
                if any(tag.startswith("I-") for tag in tags):
                    assert fitting == [scheme]
    assert detect([]) == "iob2"


def test_tags_of_no_scheme_say_where_the_last_one_fails() -> None:
    for text, scheme, sequence, index, reason, strict in [
        ("O / B-X I-X / O B-X O I-X", "iob2", 2, 3, "I-X after O; ", True),
        ("O / B-X L-X / U-X O / S-X", "bilou", 3, 0, "'S-X' is no tag of bilou ", True),
        ("O / B-X L-X / U-X O / S-X", "bilou", 3, 0, "'S-X' is no tag of bilou ", False),
        ("O / B-X L-Y / E-X", "bilou", 2, 0, "'E-X' is no tag of bilou ", False),
        ("I-X B-Y", "iob1", 0, 1, "B-Y after I-X; ", True),
        ("O / Z-X", "iob2", 1, 0, "'Z-X' is no tag of iob2 ", True),
        ("O / Z-X", "iob2", 1, 0, "'Z-X' is no tag of iob2 ", False),
        ("I-X / O / B", "iob1", 2, 0, "'B' is no tag of iob1 ", False),
    ]:
        sequences = (tags.split() for tags in f"{text} / never read".split(" / "))
        with pytest.raises(MisfitError, match=f"^sequence {sequence}, tag at index {index}: {reason}") as caught:
            detect(sequences, strict=strict)
        assert list(sequences) == [["never", "read"]]
        assert (caught.value.scheme, caught.value.sequence, caught.value.index) == (scheme, sequence, index)


# --- invalid tags -----------------------------------------------------------------------------------------------------


def test_each_tag_that_may_not_follow_the_one_before_is_a_fault() -> None:
    for scheme in SCHEMES:
        for tags in every(scheme):
            pairs = zip(["", *tags], [*tags, ""], strict=True)
            known = [fault.known for fault in faults(tags, scheme)]
            assert known == [True] * sum(misplaced(*pair, scheme) is not None for pair in pairs), tags
    mixed = faults(["O", "I-X", "B-X", "S-X", "I-Y", "NNP"], "iob2")
    assert [(fault.index, fault.known) for fault in mixed] == [(1, True), (3, False), (4, True), (5, False)]


def test_the_scheme_with_the_fewest_faults_is_meant() -> None:
    for text, scheme in [
        ("O B-MISC I-MISC / I-PER I-PER O / I-LOC", "iob1"),
        ("O I-MISC I-MISC / B-PER I-PER O / B-LOC", "iob2"),
        ("B-X O / S-X O / O B-X E-X / E-X O", "bioes"),
        ("B-X O / B-X I-X L-X", "bilou"),
        ("B-X O / B-Y O / I-X O", "iob2"),
        ("I-X B-Y", "iob2"),  # one fault each: the first one of the table
    ]:
        sequences = [tags.split() for tags in text.split(" / ")]
        assert detect(sequences) == scheme
        with pytest.raises(MisfitError):
            detect(sequences, strict=True)


def test_invalid_tags_are_read() -> None:
    for tags, expected in [
        ("O B-X I-X", [(1, 3)]),
        ("O I-X I-X", [(1, 3)]),
        ("B-X I-Y I-Y", [(0, 1), (1, 3)]),
        ("B-X B-X E-X E-X", [(0, 1), (1, 3), (3, 4)]),
        ("I-X E-X I-X S-X I-X", [(0, 2), (2, 3), (3, 4), (4, 5)]),
        ("B-X L-X U-X L-X", [(0, 2), (2, 3), (3, 4)]),
        ("E-X O", [(0, 1)]),
    ]:
        assert [(start, end) for start, end, _ in read_spans(tags.split())] == expected


# --- scores -----------------------------------------------------------------------------------------------------------


def shares(right: int, predicted: int, gold: int) -> tuple[float, float, float]:
    precision, recall = right / max(predicted, 1), right / max(gold, 1)
    return 2.0 * precision * recall / max(precision + recall, 1e-9), precision, recall


def scores_by_sets(gold: list[list[str]], predicted: list[list[str]], scheme: Scheme) -> dict[str, float]:
    sides = [
        {(number, span) for number, tags in enumerate(side) for span in read_by_expression(tags, scheme)}
        for side in (gold, predicted)
    ]
    scores = dict(
        zip(("f1", "precision", "recall"), shares(*map(len, (sides[0] & sides[1], *sides[::-1]))), strict=True)
    )
    for kind in {span.type for _, span in sides[0] | sides[1]}:
        gold_spans, read = ({entry for entry in side if entry[1].type == kind} for side in sides)
        scores[f"f1_{kind}"] = shares(len(gold_spans & read), len(read), len(gold_spans))[0]
    return scores


@st.composite
def tagged(draw: st.DrawFn, scheme: Scheme) -> tuple[list[list[str]], list[list[str]]]:
    """Valid gold tags, and predictions that are any tags: anew, or the gold ones with a few others in their place."""
    known = ["O", *(f"{letter}-{kind}" for letter in LETTERS[scheme] for kind in "XYZ")]
    gold, predicted = [], []
    for _ in range(draw(st.integers(1, 3))):
        pieces = draw(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("OXYZ")), max_size=4))
        ends = [sum(length for length, _ in pieces[: i + 1]) for i in range(len(pieces))]
        stretches = [Span(end - length, end, kind) for end, (length, kind) in zip(ends, pieces, strict=True)]
        entities = [span for span in stretches if span.type != "O"]
        gold.append(tags_of(entities, sum(length for length, _ in pieces), scheme))
        predicted.append([draw(st.sampled_from([tag] * 12 + known)) for tag in gold[-1]])
    return gold, predicted


# What the public scorer conlleval (Tjong Kim Sang, 2004) says of two tags in a row of the same type: whether an entity
# ends between them, and whether one begins. Its tables have B, I, O and E. They say nothing of S, and of E before B;
# these are read as in its versions for IOBES: each B and S begins an entity, each E and S ends one.
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"} | {"EB", "BS", "IS", "ES", "SB", "SI", "SE", "SS", "SO"}
BEGINS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"} | {"EB", "BS", "IS", "OS", "ES", "SB", "SI", "SE", "SS"}


def conlleval(gold: list[str], predicted: list[str]) -> Counter[tuple[str, str]]:
    """Its counts for one sentence, word by word as it reads a file."""

    def ends(before: str, tag: str) -> bool:
        return before[0] + tag[0] in ENDS or (before != "O" and before[1:] != tag[1:])

    def begins(before: str, tag: str) -> bool:
        return before[0] + tag[0] in BEGINS or (tag != "O" and before[1:] != tag[1:])

    counts: Counter[tuple[str, str]] = Counter()
    true_before = found_before = "O"
    within = False  # an entity that is right so far
    for true, found in zip([*gold, "O"], [*predicted, "O"], strict=True):
        if within:
            true_ends, found_ends = ends(true_before, true), ends(found_before, found)
            if true_ends and found_ends and true_before[1:] == found_before[1:]:
                within = False
                counts[true_before[2:], "right"] += 1
            elif true_ends != found_ends or true[1:] != found[1:]:
                within = False
        if begins(true_before, true) and begins(found_before, found) and true[1:] == found[1:]:
            within = True
        counts[true[2:], "gold"] += begins(true_before, true)
        counts[found[2:], "predicted"] += begins(found_before, found)
        true_before, found_before = true, found
    return +counts


@pytest.mark.parametrize("letters", ["BI", "BIES"])
def test_scores_are_those_of_conlleval(letters: str) -> None:
    """On 2,000 random sentences, of which most have invalid tags on both sides."""
    draw = random.Random(0)
    known = ["O", "O", *(f"{letter}-{kind}" for letter in letters for kind in ("X", "Y"))]
    gold, predicted, total = [], [], Counter[tuple[str, str]]()
    for _ in range(2_000):
        gold.append([draw.choice(known) for _ in range(draw.randint(1, 12))])
        predicted.append([tag if draw.random() < 0.6 else draw.choice(known) for tag in gold[-1]])
        counts = conlleval(gold[-1], predicted[-1])
        assert +compare(gold[-1:], predicted[-1:]).counts() == counts, (gold[-1], predicted[-1])
        total += counts

    def in_all(name: str) -> int:
        return sum(number for (_, counted), number in total.items() if counted == name)

    right = in_all("right")
    scores = entity_scores(gold, predicted)
    assert (scores["f1"], scores["precision"], scores["recall"]) == pytest.approx(
        shares(right, in_all("predicted"), in_all("gold"))
    )
    assert right > 2_000
    scheme: Literal["iob2", "bioes"] = "iob2" if letters == "BI" else "bioes"
    assert scores["f1"] != pytest.approx(entity_scores(gold, predicted, scheme)["f1"], abs=0.01)
    assert sum(problems(tags, scheme) is not None for tags in predicted) > 1_000


def test_valid_tags_have_the_same_scores_in_both_readings() -> None:
    for scheme in SCHEMES:
        valid = [tags for tags in every(scheme, 4) if problems(tags, scheme) is None and len(tags) == 4]
        shuffled = random.Random(1).sample(valid, len(valid))
        assert entity_scores(valid, shuffled) == entity_scores(valid, shuffled, scheme)


STRICT: list[Scheme] = [scheme for scheme in SCHEMES if scheme != "iob1"]
"""Those in which an expression tells what is written as the scheme asks for, whatever stands in front of it."""


@pytest.mark.parametrize("scheme", STRICT)
def test_strict_scores_are_those_of_sets_of_spans(scheme: Scheme) -> None:
    @settings(max_examples=40)
    @given(tagged(scheme))
    def holds(sides: tuple[list[list[str]], list[list[str]]]) -> None:
        scores = entity_scores(*sides, scheme)
        assert scores == pytest.approx(scores_by_sets(*sides, scheme), abs=1e-8)
        assert all(type(value) is float for value in scores.values())
        gold = sides[0]
        entities = any(tag != "O" for tags in gold for tag in tags)
        assert set(entity_scores(gold, gold, scheme).values()) == {float(entities)}

    holds()


def test_every_short_prediction_is_read_as_the_expression_says() -> None:
    """One sentence each against nothing else: precision is 1 where a span is read that the expression reads."""
    for scheme in STRICT:
        for tags in every(scheme, 3):
            gold = tags_of(read_by_expression(tags, scheme), len(tags), scheme)
            assert set(entity_scores([gold], [tags], scheme).values()) == {float(gold != ["O"] * len(tags))}, tags


def test_what_is_read_strictly() -> None:
    """Of iob2 and bioes as seqeval 1.2.2 reads it in its strict mode."""
    for scheme, tags, expected in [
        ("iob2", "I-X B-X I-X I-Y B-Y B-Y I-X", [("X", 1, 3), ("Y", 4, 5), ("Y", 5, 6)]),
        ("iob2", "O I-X I-X O B-X", [("X", 4, 5)]),
        ("bioes", "B-X B-X E-X E-X S-X I-X", [("X", 1, 3), ("X", 4, 5)]),
        ("bioes", "B-X I-X O S-Y B-X E-Y B-Y I-Y E-Y", [("Y", 3, 4), ("Y", 6, 9)]),
        ("bilou", "B-X I-X U-X B-X L-X L-X", [("X", 2, 3), ("X", 3, 5)]),
        ("bmewo", "B-X M-X W-X B-X E-X E-X", [("X", 2, 3), ("X", 3, 5)]),
        ("iob1", "O B-X I-X O I-X B-X I-X", [("X", 4, 5), ("X", 5, 7)]),
        ("iob1", "I-X I-Y B-Y B-X", [("X", 0, 1), ("Y", 1, 2), ("Y", 2, 3)]),
    ]:
        assert [(span.type, span.start, span.end) for span in strict_spans(tags.split(), scheme)] == expected


def test_scores_are_those_of_the_public_strict_mode() -> None:
    """Figures of `classification_report(mode="strict")` of seqeval 1.2.2 for these tags: two are right of four gold
    entities, and of three predicted ones in iob2; of two in bioes, where `B-x` alone is none."""
    for scheme in ["iob2", "bioes"]:
        gold = [
            convert(tags.split(), "iob2", scheme) for tags in ("B-PER I-PER O B-LOC", "O B-group I-group", "B-LOC O")
        ]
        predicted = [[*gold[0][:3], "O"], ["O", "I-group", gold[1][2]], [gold[2][0], "B-x"]]
        assert entity_scores(gold, predicted, scheme) == pytest.approx(PUBLIC[scheme])


PUBLIC: dict[Scheme, dict[str, float]] = {
    "iob2": {"f1": 4 / 7, "precision": 2 / 3, "recall": 1 / 2, "f1_LOC": 2 / 3, "f1_PER": 1, "f1_group": 0, "f1_x": 0},
    "bioes": {"f1": 2 / 3, "precision": 1, "recall": 1 / 2, "f1_LOC": 2 / 3, "f1_PER": 1, "f1_group": 0},
}


def test_scores_where_there_is_nothing() -> None:
    nothing = {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    assert entity_scores([], [], "iob2") == entity_scores([["O"]], [["I-X"]], "iob2") == nothing
    assert entity_scores([["O"]], [["B-X"]], "iob2") == nothing | {"f1_X": 0.0}
    assert entity_scores([["B-X"]], [["O"]], "iob2") == nothing | {"f1_X": 0.0}


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="inconsistent"):
        entity_scores([["B-X", "O"]], [["B-X"]], "iob2")


def test_notations() -> None:
    """A whole file in one notation is right as it is."""
    for tags, plain in [
        ("B-PER I-PER O B-creative-work S-B_C", "B-PER I-PER O B-creative-work S-B_C"),
        ("B_PER I_PER O B_WORK_OF_ART", "B-PER I-PER O B-WORK_OF_ART"),
        ("PER-B PER-I O creative-work-S B-I", "B-PER I-PER O S-creative-work I-B"),
        ("PER_B PER_I O WORK_OF_ART_B", "B-PER I-PER O B-WORK_OF_ART"),
        ("B I O E S M L U W", "B-ENTITY I-ENTITY O E-ENTITY S-ENTITY M-ENTITY L-ENTITY U-ENTITY W-ENTITY"),
        ("B-PER M-PER E-PER W-LOC L-X U-X", "B-PER M-PER E-PER W-LOC L-X U-X"),
        ("O O", "O O"),
        ("B-I I-I O", "B-I I-I O"),
    ]:
        spelled = plain_tags(Counter(tags.split()))
        assert [spelled[tag] for tag in tags.split()] == [(tag, None, None) for tag in plain.split()]


def test_tags_in_another_spelling_than_the_file() -> None:
    misfit = "{!r} is no tag like others of the file: O, or a letter {}"
    for tags, odd, plain, repair, reason in [
        ("B-PER 0 0", "0", "O", "as 'O'", None),
        ("0 0", "0", "O", "as 'O'", None),
        ("b-PER o", "o", "O", "as 'O'", None),
        ("b-PER O", "b-PER", "B-PER", "with a capital letter", None),
        ("per-b O per-I", "per-b", "B-per", "with a capital letter", None),
        ("b i O", "i", "I-ENTITY", "with a capital letter", None),
        ("B-PER B_LOC", "B_LOC", "B-LOC", "with '-' for '_'", None),
        ("B I O B-PER", "B-PER", "B-PER", None, misfit.format("B-PER", "alone")),
        ("PER-B LOC-I O B-PER", "B-PER", "B-PER", None, misfit.format("B-PER", "behind the type")),
        ("PER-B O NNP", "NNP", "NNP", None, misfit.format("NNP", "behind the type")),
    ]:
        assert plain_tags(Counter(tags.split()))[odd] == (plain, repair, reason)
    for odd in ["PER", "PER-B", "B", "_", "B-", "-", "1", "NNP"]:  # left to the scheme
        assert plain_tags(Counter([odd, "B-PER", "I-PER"]))[odd] == (odd, None, None)


def test_types_alone_where_they_are_asked_for() -> None:
    spelled = plain_tags(Counter(["PERSON", "O", "B-LOC", "art-film"]), types_alone=True)
    assert spelled["PERSON"].tag == "I-PERSON"
    assert spelled["art-film"].tag == "art-film"
    assert plain_tags(Counter(["PERSON", "O"]))["PERSON"].tag == "PERSON"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("BIESLUMW"), st.text(min_size=1).filter(str.strip)), min_size=1))
def test_plain_tags_are_left_alone(parts: list[tuple[str, str]]) -> None:
    tags = ["-".join(part) for part in parts]
    assert {tag: spelled.tag for tag, spelled in plain_tags(Counter(tags)).items()} == {tag: tag for tag in tags}
