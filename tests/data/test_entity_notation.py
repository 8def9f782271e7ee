"""How files spell tags of entities: each with its plain spelling, or why it is no tag."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.codecs.entities import plain_tags


@pytest.mark.parametrize(
    ("tags", "plain"),
    [
        ("B-PER I-PER O B-creative-work S-B_C", "B-PER I-PER O B-creative-work S-B_C"),
        ("B_PER I_PER O B_WORK_OF_ART", "B-PER I-PER O B-WORK_OF_ART"),
        ("PER-B PER-I O creative-work-S B-I", "B-PER I-PER O S-creative-work I-B"),
        ("PER_B PER_I O WORK_OF_ART_B", "B-PER I-PER O B-WORK_OF_ART"),
        ("B I O E S M L U W", "B-ENTITY I-ENTITY O E-ENTITY S-ENTITY M-ENTITY L-ENTITY U-ENTITY W-ENTITY"),
        ("B-PER M-PER E-PER W-LOC L-X U-X", "B-PER M-PER E-PER W-LOC L-X U-X"),
        ("O O", "O O"),
        ("B-I I-I O", "B-I I-I O"),
    ],
)
def test_notations(tags: str, plain: str) -> None:
    """A whole file in one notation is right as it is."""
    found = plain_tags(Counter(tags.split()))
    assert [found[tag] for tag in tags.split()] == [(tag, None, None) for tag in plain.split()]


@pytest.mark.parametrize(
    ("tags", "odd", "plain", "repair"),
    [
        ("B-PER 0 0", "0", "O", "as 'O'"),
        ("0 0", "0", "O", "as 'O'"),
        ("b-PER o", "o", "O", "as 'O'"),
        ("b-PER O", "b-PER", "B-PER", "with a capital letter"),
        ("per-b O per-I", "per-b", "B-per", "with a capital letter"),
        ("b i O", "i", "I-ENTITY", "with a capital letter"),
        ("B-PER B_LOC", "B_LOC", "B-LOC", "with '-' for '_'"),
    ],
)
def test_repairs(tags: str, odd: str, plain: str, repair: str) -> None:
    assert plain_tags(Counter(tags.split()))[odd] == (plain, repair, None)


@pytest.mark.parametrize(
    ("tags", "odd", "reason"),
    [
        ("B I O B-PER", "B-PER", "'B-PER' is no tag like others of the file: O, or a letter alone"),
        ("PER-B LOC-I O B-PER", "B-PER", "'B-PER' is no tag like others of the file: O, or a letter behind the type"),
        ("PER-B O NNP", "NNP", "'NNP' is no tag like others of the file: O, or a letter behind the type"),
    ],
)
def test_mixtures_are_no_tags(tags: str, odd: str, reason: str) -> None:
    assert plain_tags(Counter(tags.split()))[odd].misfit == reason


@pytest.mark.parametrize("odd", ["PER", "PER-B", "B", "_", "B-", "-", "1", "NNP"])
def test_other_tags_are_left_to_the_scheme(odd: str) -> None:
    assert plain_tags(Counter([odd, "B-PER", "I-PER"]))[odd] == (odd, None, None)


def test_types_alone_where_they_are_asked_for() -> None:
    found = plain_tags(Counter(["PERSON", "O", "B-LOC", "art-film"]), types_alone=True)
    assert found["PERSON"].tag == "I-PERSON"
    assert found["art-film"].tag == "art-film"
    assert plain_tags(Counter(["PERSON", "O"]))["PERSON"].tag == "PERSON"


@given(st.lists(st.tuples(st.sampled_from("BIESLUMW"), st.text(min_size=1).filter(str.strip)), min_size=1))
def test_plain_tags_are_left_alone(parts: list[tuple[str, str]]) -> None:
    tags = ["-".join(part) for part in parts]
    assert {tag: one.tag for tag, one in plain_tags(Counter(tags)).items()} == {tag: tag for tag in tags}
